"""Runs a graph of TensorFlow Lite node by node with Tensors: at once, or into a Program when a trace is active.

What depends on constants alone is computed on the way, also while tracing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework import from_numpy, ops
from framework.errors import CheckpointError, NotSupportedError, PaddockError
from framework.limits import current, how_to_raise
from framework.ops import internal
from framework.tensors import Tensor
from framework.tflite import registry
from framework.tflite.reading import ModelText, NodeText, Steps, TensorText

_MALFORMED = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError),
    *(AssertionError, MemoryError),
)
EIGHT = ("uint8", "int8")


class Node:
    """A node as its converter sees it.

    Attributes:
        x, y: the file's tensors that it reads (None where one is left out) and gives.
    """

    def __init__(self, text: NodeText, run: Interpreter) -> None:
        self.op, self.name, self.options = text.op, text.name, text.options
        tensors = run.model.tensors
        self.x = [tensors[i] if i >= 0 else None for i in text.inputs]
        self.y = [tensors[i] for i in text.outputs]
        self._run = run

    def fail(self, text: str) -> NotSupportedError:
        """An error that names the operator and the node."""
        return NotSupportedError(f"tflite: {self.op} '{self.name}': {text}")

    def option(self, name: str) -> Any:
        """An option, or the schema's default."""
        return self.options[name]

    def host(self, x: Tensor | None, what: str) -> np.ndarray:
        """The data of a value that must be known before the graph runs, such as a shape."""
        if x is None or x.is_traced:
            raise self.fail(f"its {what} is computed from the data of an input; only a constant is taken")
        return x.numpy()

    def ints(self, x: Tensor | None, what: str) -> list[int]:
        """Known whole numbers, flat."""
        return [int(v) for v in self.host(x, what).reshape(-1)]

    def limit(self, shape: Sequence[int]) -> list[int]:
        """`shape` again, refused where a hostile file asks for gigabytes."""
        most = max(current().elements, current().element_growth * self._run.given)
        size = math.prod(int(d) for d in shape)
        if size > most or any(d < 0 for d in shape):
            raise self.fail(
                f"makes a tensor of shape {[int(d) for d in shape]}; at most {most} elements are allowed. "
                f"{how_to_raise('elements')}"
            )
        return [int(d) for d in shape]

    def kept(self, key: str, make: Any) -> Any:
        """What `make()` gives, made once for this node: weights in another layout."""
        place = (id(self.y[0]), key)
        if place not in self._run.kept:
            self._run.kept[place] = make()
        return self._run.kept[place]


def steps_of(tensor: TensorText | None) -> Steps | None:
    """Those of an 8-bit tensor whose numbers stand for others."""
    return tensor.steps if tensor is not None and tensor.dtype in EIGHT else None


def to_tensor(array: Any) -> Tensor:
    """A Tensor of a NumPy array."""
    array = np.asarray(array)
    return from_numpy(np.ascontiguousarray(array).reshape(array.shape))


def dequantized(x: Tensor, steps: Steps) -> Tensor:
    """float32 numbers that integers stand for: (q - zero) * scale."""
    if steps.is_one and x.dtype in EIGHT:
        scale, zero = float(steps.scale[0]), int(steps.zero[0])
        low = 0 if x.dtype == "uint8" else -128
        if 1e-30 <= scale <= 1e30 and low <= zero <= low + 255:
            return internal.dequantize_linear(x, x_scale=scale, x_zero=zero)
    shape = [1] * x.ndim
    if not steps.is_one:
        shape[steps.axis] = -1
    scales, zeros = (to_tensor(v.astype(np.float32).reshape(shape)) for v in (steps.scale, steps.zero))
    return (ops.cast(x, dtype="float32") - zeros) * scales


def quantized(node: Node, x: Tensor, tensor: TensorText) -> Tensor:
    """float32 numbers in the 8 bits of a tensor, halves to even, cut to its range."""
    scale, zero = one(node, tensor)
    return internal.quantize_linear(x, y_scale=scale, y_zero=zero, dtype=str(tensor.dtype))


def one(node: Node, tensor: TensorText | None) -> tuple[float, int]:
    """Scale and zero point of a whole tensor in 8 bits."""
    assert tensor is not None
    steps = steps_of(tensor)
    if steps is None or not steps.is_one:
        raise node.fail(f"'{tensor.name}' ({tensor.stated_type}) has no scale, or one a channel; one alone is taken")
    return float(steps.scale[0]), int(steps.zero[0])


class Interpreter:
    """Runs the graph of one model.

    Attributes:
        given: elements of the inputs and constants of the run under way.
        kept: weights as nodes want them.
    """

    def __init__(self, model: ModelText) -> None:
        self.model = model
        self.kept: dict[tuple[int, str], Any] = {}
        self.constants = {i: t for i, t in enumerate(model.tensors) if t.array is not None}
        self._sizes = sum(t.array.size for t in self.constants.values() if t.array is not None)
        self.given = self._sizes
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        """Lists all operators and types that nothing here computes, at once."""
        missing: dict[tuple[str, int], list[str]] = {}
        for node in self.model.nodes:
            if registry.find(node.op) is None:
                missing.setdefault((node.op, node.version), []).append(node.name)
        if missing:
            listed = "; ".join(
                f"{op} (version {version}) in {', '.join(repr(n) for n in names[:5])}"
                + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                for (op, version), names in sorted(missing.items())
            )
            count = f"tflite: {len(missing)} operators are not supported"
            raise NotSupportedError(f"{count}: {listed}; see docs/howto/tflite.md")
        strange: dict[str, list[str]] = {}
        used = {i for node in self.model.nodes for i in (*node.inputs, *node.outputs) if i >= 0}
        for i in sorted({*used, *self.model.inputs, *self.model.outputs}):
            if (t := self.model.tensors[i]).dtype is None:
                strange.setdefault(t.stated_type, []).append(t.name)
        if strange:
            listed = "; ".join(f"{kind} in {', '.join(map(repr, names[:5]))}" for kind, names in strange.items())
            raise NotSupportedError(f"tflite: types that are not supported: {listed}; see docs/howto/tflite.md")

    def in_float(self) -> list[NodeText]:
        """Nodes of 8-bit numbers that are computed in float32 between two roundings."""
        tensors = self.model.tensors
        return [
            node
            for node in self.model.nodes
            if (found := registry.find(node.op)) is not None
            and found.eight == "float"
            and any(steps_of(tensors[i]) is not None for i in node.outputs)
            and any(steps_of(tensors[i]) is not None for i in node.inputs if i >= 0)
        ]

    def run(self, feeds: Sequence[Any], weights: Mapping[int, Tensor]) -> list[Any]:
        """The graph's outputs.

        Args:
            feeds: inputs in order.
            weights: constants that are parameters, by number of their tensors.
        """
        values: dict[int, Any] = {}
        for i in self.constants:
            if i not in weights:
                values[i] = self._constant(i)
        values |= weights
        values |= dict(zip(self.model.inputs, feeds, strict=True))
        self.given = self._sizes + sum(math.prod((x._value or x._data).shape) for x in feeds)
        for text in self.model.nodes:
            self._node(text, values)
        return [values[i] for i in self.model.outputs]

    def _constant(self, i: int) -> Tensor:
        key = (i, "constant")
        if key not in self.kept:
            self.kept[key] = to_tensor(self.model.tensors[i].array)
        return self.kept[key]

    def _node(self, text: NodeText, values: dict[int, Any]) -> None:
        converter = registry.find(text.op)
        assert converter is not None
        node = Node(text, self)
        try:
            inputs = [self._input(i, values) for i in text.inputs]
            outputs = _applied(converter, node, inputs)
        except PaddockError as e:
            if "tflite: " in str(e):
                raise
            raise type(e)(f"tflite: {text.op} '{text.name}': {e}") from None
        except _MALFORMED as e:  # a file may hold anything: what a converter trips over is the file's fault
            raise CheckpointError(f"tflite: {text.op} '{text.name}': malformed ({type(e).__name__}: {e})") from e
        for i, value in zip(text.outputs, outputs, strict=False):
            values[i] = value
            if isinstance(value, Tensor) and value.dtype != self.model.tensors[i].dtype:
                raise CheckpointError(
                    f"tflite: {text.op} '{text.name}': the file states that '{self.model.tensors[i].name}' is "
                    f"{self.model.tensors[i].stated_type}, and it is {value.dtype}"
                )

    def _input(self, i: int, values: Mapping[int, Any]) -> Any:
        if i < 0:
            return None
        if i not in values:  # a constant without elements
            t = self.model.tensors[i]
            return to_tensor(np.zeros([d or 0 for d in t.shape], t.dtype or "float32"))
        return values[i]


def _applied(converter: registry.Converter, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    if converter.eight == "own":
        return as_list(converter.function(node, *inputs))
    if converter.eight == "moves":
        same = [in_steps_of(node.y[0], node, x, t) for x, t in zip(inputs, node.x, strict=True)]
        found = as_list(converter.function(node, *same))
        return [in_steps_of(t, node, y, node.y[0]) for y, t in zip(found, node.y, strict=False)]
    wide = [
        dequantized(x, s) if x is not None and (s := steps_of(t)) is not None else x
        for x, t in zip(inputs, node.x, strict=True)
    ]
    found = as_list(converter.function(node, *wide))
    return [
        quantized(node, y, t) if steps_of(t) is not None and y.dtype == "float32" else y
        for y, t in zip(found, node.y, strict=False)
    ]


def in_steps_of(result: TensorText, node: Node, x: Any, given: TensorText | None) -> Any:
    """8-bit numbers of `given` in the steps of `result`, where it has others."""
    before, after = steps_of(given), steps_of(result)
    if x is None or before is None or after is None or x.dtype not in EIGHT:
        return x
    equal = np.array_equal(before.scale, after.scale) and np.array_equal(before.zero, after.zero)
    return x if equal and x.dtype == result.dtype else quantized(node, dequantized(x, before), result)


def as_list(out: Any) -> Sequence[Any]:
    """A converter's result as a sequence of outputs; a tuple holds several, anything else is one."""
    return out if isinstance(out, tuple | list) else [out]
