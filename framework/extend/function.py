"""Function: a computation with a gradient of the user's own.

`forward` and `backward` are made of operators (and of `py_func` for NumPy code), so that tracing puts both into the
Program, and a backward pass made of differentiable operators can itself be differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework.autograd import saved, tape
from framework.context import context
from framework.errors import AttributeValueError, GradientError, ShapeError, UserFunctionError
from framework.extend.user_code import calling, place_of
from framework.tensors import Tensor


class Context:
    """What `forward` leaves for `backward`: tensors by `save`, anything else as attributes of its own.

    Attributes:
        wants_gradient: for each argument of `forward`, whether anybody asks for its gradient.
    """

    def __init__(self, wants_gradient: tuple[bool, ...]) -> None:
        self.wants_gradient = wants_gradient
        self._saved: list[Any] = []  # tensors; an int for an output of the function, which would refer back to this

    def save(self, *tensors: Tensor | None) -> None:
        """Keeps inputs, outputs or other tensors for `backward`, in place of what was kept before."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise AttributeValueError(
                    f"save: takes tensors, not {type(t).__name__}; keep it as an attribute of the context"
                )
        self._saved = list(tensors)

    @property
    def saved(self) -> tuple[Any, ...]:
        """What `save` was given, in order."""
        return tuple(self._saved)


class Function:
    """Base of computations with a gradient of their own; call them by `apply`.

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save(x)
            return x * x

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved
            return 2.0 * x * dy

    y = Square.apply(x)
    """

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Tensor | tuple[Tensor, ...]:
        """Computes the outputs: a Tensor or a tuple of them. Its operators are not remembered for gradients."""
        raise NotImplementedError("write a static method forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Context, *grads: Tensor) -> Any:
        """The gradient of each argument of `forward` (None where there is none) from those of the outputs.

        An output that nothing depends on has a gradient of zeros.
        """
        raise NotImplementedError("write a static method backward(ctx, ...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls `forward(ctx, *args)` and remembers `backward`.

        Raises:
            UserFunctionError: `forward` raised an error, which is the cause, or returned something else than tensors.
        """
        edges = [_edge(a) for a in args]
        ctx = Context(tuple(e is not None for e in edges))
        with tape.recording(False), calling(f"{cls.__name__}.forward", cls.forward):
            out = cls.forward(ctx, *args)
        outputs = _outputs(cls, out, args)
        if any(ctx.wants_gradient) and context.grad_enabled:
            _remember(cls, ctx, args, edges, outputs)
        return outputs if isinstance(out, tuple) else outputs[0]


def _edge(a: Any) -> Any:
    return saved.edge_of(a) if isinstance(a, Tensor) else None


def _outputs(cls: type[Function], out: Any, args: Sequence[Any]) -> tuple[Tensor, ...]:
    """The outputs as tensors of their own: one that is an argument, or there twice, as a view."""
    from framework import ops

    seen = [a for a in args if isinstance(a, Tensor)]
    outputs = []
    for t in out if isinstance(out, tuple) else (out,):
        if not isinstance(t, Tensor):
            raise UserFunctionError(
                f"{cls.__name__}.forward{place_of(cls.forward)} returned {type(t).__name__}; it must return a Tensor "
                "or a tuple of Tensors"
            )
        if t.node is not None or t.requires_grad or any(t is s for s in seen):
            with tape.no_grad():
                t = ops.reshape_like(t, t)
        seen.append(t)
        outputs.append(t)
    return tuple(outputs)


def _remember(
    cls: type[Function], ctx: Context, args: Sequence[Any], edges: list[Any], outputs: tuple[Tensor, ...]
) -> None:
    tape.attach(_FunctionNode(cls, ctx, args, edges, outputs), outputs)


class _FunctionNode(tape.Node):
    """A call of a Function on the tape."""

    __slots__ = ("_args", "_cls", "_ctx", "_own")

    def __init__(
        self, cls: type[Function], ctx: Context, args: Sequence[Any], edges: list[Any], outputs: Sequence[Tensor]
    ) -> None:
        self.start(edges, [(o._data, o._value) for o in outputs])
        self._cls = cls
        self._ctx = ctx
        self._args = [_type_of(a) if isinstance(a, Tensor) else None for a in args]
        ctx._saved = [next((i for i, o in enumerate(outputs) if o is s), saved.keep(s)) for s in ctx._saved]

    @property
    def name(self) -> str:
        """The class's name, for messages."""
        return self._cls.__name__

    def gradients(self, dys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """What the user's `backward` returns, checked."""
        from framework import ops

        ctx = Context(self._ctx.wants_gradient)
        ctx.__dict__.update(self._ctx.__dict__)
        ctx._saved = [self.output(s) if isinstance(s, int) else saved.kept(s) for s in self._ctx._saved]
        given = [
            dy if dy is not None else ops.full_like(self.output(i).detach(), value=0.0) for i, dy in enumerate(dys)
        ]
        with calling(f"{self._cls.__name__}.backward", self._cls.backward):
            out = self._cls.backward(ctx, *given)
        return self._checked(out if isinstance(out, tuple) else (out,))

    def free(self) -> None:
        """Lets go of saved tensors after they have been used."""
        super().free()
        self._ctx._saved = []

    def _checked(self, grads: tuple[Any, ...]) -> list[Tensor | None]:
        who = f"{self._cls.__name__}.backward{place_of(self._cls.backward)}"
        if len(grads) != len(self._args):
            raise GradientError(
                f"{who} returned {len(grads)} gradients; forward takes {len(self._args)} arguments, so return as many, "
                "None for those without a gradient"
            )
        for i, (g, arg) in enumerate(zip(grads, self._args, strict=True)):
            if g is None or self.edges[i] is None:
                continue
            if not isinstance(g, Tensor):
                raise GradientError(f"{who} returned {type(g).__name__} as gradient {i}; return a Tensor or None")
            if arg is not None and not _fits(g, arg):
                raise ShapeError(
                    f"{who} returned {g.dtype} of {g.ndim} axes as gradient {i} of an argument that is {arg[0]} of "
                    f"{arg[1]} axes"
                    + ("" if arg[2] is None else f" with shape {list(arg[2])}")
                    + "; a gradient has the argument's shape and type"
                )
        return [g if edge is not None else None for g, edge in zip(grads, self.edges, strict=True)]


_Type = tuple[str, int, "tuple[int, ...] | None"]


def _type_of(t: Tensor) -> _Type:
    """Type, number of axes, and shape: None for a value that is being traced, whose shape may vary."""
    return t.dtype, t.ndim, None if t._data is None else t._data.shape


def _fits(g: Tensor, arg: _Type) -> bool:
    dtype, ndim, shape = _type_of(g)
    return (dtype, ndim) == arg[:2] and (shape is None or arg[2] is None or shape == arg[2])
