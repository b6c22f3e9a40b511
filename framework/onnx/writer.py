"""An ONNX graph under construction: nodes, initializers, and which name holds which value in which layout.

Our images are [N, H, W, C], those of ONNX [N, C, H, W]. A value of four axes may be held in either layout or in both;
transpositions are written only where an operator wants the other one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from framework.errors import NotSupportedError
from framework.graph.ir import Operation, Program, Value
from framework.onnx.optional import require_onnx
from framework.onnx.reading import ELEMENT_NUMBERS
from framework.tensors import numpy_of

TO_FRONT = (0, 2, 3, 1)  # [N, C, H, W] -> [N, H, W, C]
TO_BACK = (0, 3, 1, 2)  # [N, H, W, C] -> [N, C, H, W]
AXIS_IN_BACK = {0: 0, 1: 2, 2: 3, 3: 1}  # where an axis of [N, H, W, C] lies in [N, C, H, W]

FAR = 2**62  # beyond the end of any axis

_SMALL = 4096  # bytes of constants that are worth comparing

Exporter = Callable[["Writer", Operation], None]
EXPORTERS: dict[str, Exporter] = {}


def exports(*names: str) -> Callable[[Exporter], Exporter]:
    """Declares the function below as what writes operators of ours."""

    def declare(function: Exporter) -> Exporter:
        EXPORTERS.update(dict.fromkeys(names, function))
        return function

    return declare


class Writer:
    """Collects the graph of one Program."""

    def __init__(self, program: Program, around: Writer | None = None) -> None:
        """`around` writes the graph that a block's graph stands in: names are unique in both."""
        self.helper = require_onnx().helper
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[Any, str] = {}
        self._arrays: dict[Value, np.ndarray] = {v: numpy_of(a) for v, a in program.constants.items()}
        self._arrays |= {v: t.detach().numpy() for v, t in program.states.items()}
        self._names: dict[Value, str] = {}  # in our layout
        self._images: dict[Value, str] = {}  # as [N, C, H, W]
        self._makers: dict[Value, Operation] = {}
        self._taken = {v.name for v in program.inputs}  # names of inputs and initializers
        self._counter = itertools.count(1)
        if around is not None:
            self._taken, self._counter = around._taken, around._counter

        self._used = {v for op in program.block for v in op.inputs} | program.kept()

    # -- what the graph is made of
    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node with one output; returns its name."""
        return self.nodes_out(op, inputs, 1, **attributes)[0]

    def nodes_out(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs. Attributes that are empty lists are left out: `helper` knows no type."""
        attributes = {k: v for k, v in attributes.items() if not (isinstance(v, list) and not v)}
        outputs = [self.fresh(op) for _ in range(count)]
        name = outputs[0]
        self.nodes.append(self.helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return outputs

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        while True:
            name = f"{hint.lower()}_{next(self._counter)}"
            if name not in self._taken:
                return name

    def graph(
        self,
        block: Program,
        known: Mapping[Value, str],
        parameters: Sequence[Value],
        finish: Callable[[Writer, list[str]], list[str]] | None = None,
        first: Sequence[Value] = (),
    ) -> Any:
        """A graph inside of this one, for a block: it reads `known` from around it and takes `parameters`.

        `finish` makes the graph's outputs of the block's results, with some before them that are like `first`.
        """
        inner = Writer(block, self)
        for v, name in known.items():
            inner.set(v, name)
        for v in parameters:
            inner.set(v, self.fresh("argument"))
        results = inner.write(block)
        results = [inner.node("Identity", [name]) for name in (finish(inner, results) if finish else results)]
        return self.helper.make_graph(
            inner.nodes,
            self.fresh("block"),
            [self._port(inner.get(v), v) for v in parameters],
            [self._port(n, v) for n, v in zip(results, [*first, *block.results], strict=True)],
            inner.initializers,
        )

    def _port(self, name: str, v: Value) -> Any:
        """An input or output of a block, whose extents are open."""
        shape = [f"{name}_{i}" for i in range(len(v.shape))]
        return self.helper.make_tensor_value_info(name, element_number(v), shape)

    def inline(self, block: Program, names: Sequence[str]) -> list[str]:
        """Writes a block's nodes into this graph; returns the names of its results."""
        inner = Writer(block, self)
        inner.nodes, inner.initializers = self.nodes, self.initializers
        for v, name in zip(block.inputs, names, strict=True):
            inner.set(v, name)
        return inner.write(block)

    def write(self, program: Program) -> list[str]:
        """Writes all operations; returns the names of the results."""
        for op in program.block:
            EXPORTERS[op.name](self, op)
            self._makers.update(dict.fromkeys(op.outputs, op))
        return [self.get(v) for v in program.results]

    def constant(self, array: Any, dtype: str | None = None, name: str | None = None) -> str:
        """The name of an initializer; small equal ones are stored once."""
        array = np.ascontiguousarray(np.asarray(array, dtype=dtype)).reshape(np.shape(array))
        key = (array.dtype.name, array.shape, array.tobytes()) if array.nbytes <= _SMALL else None
        if key not in self._constants:
            made = name if name is not None and name not in self._taken else self.fresh("constant")
            self._taken.add(made)
            self.initializers.append(require_onnx().numpy_helper.from_array(array, made))
            if key is None:
                return made
            self._constants[key] = made
        return self._constants[key]

    def ints(self, *values: int) -> str:
        """A vector of int64."""
        return self.constant(np.array(values, np.int64))

    def number(self, value: float, like: Value) -> str:
        """A 0-d constant of a value's type; whole numbers are rounded down and kept in their range."""
        dtype = _dtype(like.dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            value = int(limits.min if value <= limits.min else limits.max if value >= limits.max else np.floor(value))
        return self.constant(np.array(value, dtype))

    # -- values
    def array(self, v: Value) -> np.ndarray | None:
        """The data of a value that is known now."""
        return self._arrays.get(v)

    def set(self, v: Value, name: str) -> None:
        """A value in our layout."""
        self._names[v] = name

    def set_image(self, v: Value, name: str) -> None:
        """A value as [N, C, H, W]."""
        self._images[v] = name

    def get(self, v: Value | None) -> str:
        """The name of a value in our layout; empty for none."""
        if v is None:
            return ""
        if v not in self._names:
            if v in self._arrays:
                self._names[v] = self.constant(self._arrays[v], name=v.name)
            else:
                self._names[v] = self.node("Transpose", [self._images[v]], perm=TO_FRONT)
        return self._names[v]

    def image(self, v: Value) -> str:
        """The name of a value as [N, C, H, W]."""
        if v not in self._images:
            known = self.array(v)
            if known is not None:
                self._images[v] = self.constant(known.transpose(TO_BACK), name=v.name)
            else:
                self._images[v] = self.node("Transpose", [self.get(v)], perm=TO_BACK)
        return self._images[v]

    def is_image(self, v: Value | None) -> bool:
        """Whether a value is at hand as [N, C, H, W] only."""
        return v is not None and v in self._images and v not in self._names

    def maker(self, v: Value) -> Operation | None:
        """The operation that gave a value, for an exporter that writes both as one node."""
        return self._makers.get(v)

    def is_used(self, v: Value) -> bool:
        """Whether anything reads a value."""
        return v in self._used

    def shape(self, v: Value) -> str:
        """The extents of a value in our layout, without changing its layout for it."""
        if not self.is_image(v):
            return self.node("Shape", [self.get(v)])
        return self.node("Gather", [self.node("Shape", [self._images[v]]), self.ints(*TO_FRONT)])


def refuse(op: Operation, why: str) -> NotSupportedError:
    """An error that names the operation and the user's line."""
    where = f" (from {op.where})" if op.where else ""
    return NotSupportedError(f"onnx: {op.name}{where}: {why}")


def _dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def nth(op: Operation, i: int = 0) -> Value:
    """Its i-th input, which is there."""
    v = op.inputs[i]
    assert v is not None
    return v


def rank_of(op: Operation) -> int:
    """The number of axes of its first input."""
    return len(nth(op).shape)


def element_number(v: Value) -> int:
    """ONNX's number of a value's type."""
    return ELEMENT_NUMBERS[v.dtype]
