"""Layer: a part of a model with named parameters, buffers and sub-layers, found by plain attribute assignment.

Parameters are what an optimizer changes, buffers are other state that is saved (such as running statistics).
Names are paths of attributes joined by dots: `backbone.stem.conv.weight`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from framework import mode, ops
from framework.errors import AttributeValueError, CheckpointError
from framework.nn import init
from framework.tensors import Tensor, tensor

Self = TypeVar("Self", bound="Layer")
_SHOWN = 8  # names listed of each kind of difference


def parameter(array: Any) -> Tensor:
    """A tensor to be trained, with a copy of `array` (float64 arrays keep their type).

    Raises:
        AttributeValueError: its numbers are whole, so there is no gradient to follow.
    """
    return _trainable(tensor(array))


def _trainable(t: Tensor) -> Tensor:
    if not (t.dtype.startswith("float") or t.dtype == "bfloat16"):
        raise AttributeValueError(f"parameter: the type is {t.dtype}; what is trained has a floating-point type")
    t.requires_grad = t.persistable = True
    return t


def buffer(array: Any) -> Tensor:
    """A tensor that is state but not trained, with a copy of `array`."""
    t = tensor(array)
    t.persistable = True
    return t


class Hook:
    """A function that a layer calls; `remove()` ends that, as does the end of a `with` block."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[int, tuple[str, Callable[..., Any]]], place: str, call: Callable[..., Any]) -> None:
        self._hooks, self._number = hooks, next(Hook._numbers)
        hooks[self._number] = (place, call)

    def remove(self) -> None:
        """Takes it away; a second time does nothing."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Layer:
    """Base of all layers and models. Derive, assign parts in `__init__`, compute in `forward`.

    >>> class Head(Layer):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = Linear(64, 10)
    ...     def forward(self, x):
    ...         return self.fc(x)

    `forward` must not read `x.shape`: a traced value's extents may vary from call to call (`x.ndim` is fine).
    """

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}  # attribute -> "parameter", "buffer" or "layer", in order of assignment
        self._initializers: dict[str, init.Initializer] = {}
        self._training = True
        self._hooks: dict[int, tuple[str, Callable[..., Any]]] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes; derived classes define it."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs `forward`, between the hooks that were registered."""
        if not self._hooks:
            return self.forward(*args, **kwargs)
        for hook in self._hooks_of("before"):
            given = hook(self, args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
        out = self.forward(*args, **kwargs)
        for hook in self._hooks_of("after"):
            changed = hook(self, args, out)
            out = out if changed is None else changed
        return out

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Hook:
        """Calls `hook(layer, args)` before each `forward`; what it returns, if anything, are the arguments instead.

        A hook runs while a function is traced, and what it computes is a part of the Program; a Program that was
        traced before does not know it. `remove()` of the result, or leaving it as a context, takes it away.
        """
        return Hook(self._hooks, "before", hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> Hook:
        """Calls `hook(layer, args, result)` after each `forward`; what it returns, if anything, is the result instead.

        For the rest see `register_forward_pre_hook`.
        """
        return Hook(self._hooks, "after", hook)

    def _hooks_of(self, place: str) -> list[Callable[..., Any]]:
        return [call for where, call in list(self._hooks.values()) if where == place]

    # -- parts
    def __setattr__(self, name: str, value: Any) -> None:
        kind = _kind_of(value)
        if kind is not None:
            if "_parts" not in self.__dict__:
                raise AttributeValueError(f"{type(self).__name__}: call super().__init__() before '{name}' is assigned")
            self._parts[name] = kind
        elif "_parts" in self.__dict__:
            self._parts.pop(name, None)
            if isinstance(value, (list, tuple)) and any(isinstance(v, Layer) for v in value):
                raise AttributeValueError(
                    f"{type(self).__name__}.{name}: layers in a plain {type(value).__name__} would not be found; "
                    "use nn.LayerList or nn.Sequential"
                )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._parts.pop(name, None)
        object.__delattr__(self, name)

    def add_parameter(self, name: str, shape: Sequence[int], initializer: init.Initializer) -> None:
        """Makes parameter `name` of float32 `shape`; `nn.init.initialize` draws it again by its full name.

        Raises AttributeValueError for a size below 1.
        """
        if min(shape, default=1) < 1:
            raise AttributeValueError(f"{type(self).__name__}: {name} would be {list(shape)}; sizes are 1 or more")
        self._initializers[name] = initializer
        setattr(self, name, _trainable(init.first_values(initializer, shape, name)))

    def register_buffer(self, name: str, value: Any) -> None:
        """Makes `self.name` a buffer with a copy of `value`, a tensor or an array: state that is saved, not trained."""
        setattr(self, name, buffer(value))

    def _of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        return ((name, self.__dict__[name]) for name, k in list(self._parts.items()) if k == kind)

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """(attribute, layer) of the layers assigned to this one."""
        return self._of_kind("layer")

    @property
    def children(self) -> list[Layer]:
        """The layers assigned to this one."""
        return [layer for _, layer in self.named_children()]

    def named_layers(self, prefix: str = "") -> Iterator[tuple[str, Layer]]:
        """(path, layer) of this layer (path "") and all below it, each once."""
        seen: set[int] = set()

        def walk(layer: Layer, path: str) -> Iterator[tuple[str, Layer]]:
            if id(layer) not in seen:
                seen.add(id(layer))
                yield path, layer
                for name, child in layer.named_children():
                    yield from walk(child, f"{path}.{name}" if path else name)

        return walk(self, prefix)

    def _named_tensors(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()  # a tensor shared by two layers has the name it is met under first
        for path, layer in self.named_layers():
            for name, t in layer._of_kind(kind):
                if id(t) not in seen:
                    seen.add(id(t))
                    yield (f"{path}.{name}" if path else name), t

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """(path, tensor) of all parameters, also those frozen with `requires_grad = False`."""
        return self._named_tensors("parameter")

    def parameters(self) -> list[Tensor]:
        """All parameters."""
        return [t for _, t in self.named_parameters()]

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(path, tensor) of all buffers."""
        return self._named_tensors("buffer")

    # -- mode
    @property
    def training(self) -> bool:
        """True in training mode. A Program traced while this was read is used in that mode only."""
        return mode.note(self)

    def mode_now(self) -> bool:
        """The mode, without telling a trace that it was looked at."""
        return self._training

    def train(self: Self, training: bool = True) -> Self:
        """Sets training (or evaluation) mode for this layer and all below it."""
        for _, layer in self.named_layers():
            layer._training = training
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode: statistics are used, not gathered; nothing is dropped."""
        return self.train(False)

    # -- state
    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and buffers by path: the live tensors, not copies."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> list[str]:
        """Replaces parameters and buffers by copies of `state`'s tensors or arrays.

        Args:
            state: by path, as from `state_dict()`.
            strict: every name must fit; otherwise what fits is taken and the rest is reported.

        Returns:
            One line for each kind of difference; empty when all fits.

        Raises:
            CheckpointError: `strict` and something does not fit (nothing is changed then).
        """
        own = self.state_dict()
        values = {name: value if isinstance(value, Tensor) else tensor(value) for name, value in state.items()}
        misfits = {n for n, t in own.items() if n in values and not _same_kind(t, values[n])}
        lines = [
            *_line("missing", [n for n in own if n not in values]),
            *_line("unexpected", [n for n in values if n not in own]),
            *_line("different", [f"{n} ({_kind(values[n])}, the model has {_kind(own[n])})" for n in sorted(misfits)]),
        ]
        if lines and strict:
            raise CheckpointError(f"{type(self).__name__}: this state does not fit the model; {'; '.join(lines)}")
        for name, value in values.items():
            if name in own and name not in misfits:
                own[name].set(ops.copy(value))
        return lines

    def __repr__(self) -> str:
        inner = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        body = "".join(f"\n  {line}" for line in inner)
        return f"{type(self).__name__}({self._describe()}{body}{chr(10) if body else ''})"

    def _describe(self) -> str:
        """Arguments to show in `repr`; empty by default."""
        return ""


def _kind_of(value: Any) -> str | None:
    if isinstance(value, Layer):
        return "layer"
    if isinstance(value, Tensor) and value.persistable:
        return "parameter" if value.requires_grad else "buffer"
    return None


def _kind(t: Tensor) -> str:
    return f"{t.dtype} {list(t.shape)}"


def _same_kind(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape)


def _line(what: str, names: list[str]) -> list[str]:
    more = f", ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return [f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{more}"] if names else []
