"""What is found in data, cut or filled to its size, as nodes of ONNX."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.writer import Writer, exports, nth, refuse


def _cut(w: Writer, found: str, rest: str, size: int) -> str:
    """The first `size` of what was found and what fills it."""
    joined = w.node("Concat", [found, rest], axis=0)
    return w.node("Slice", [joined, w.ints(0), w.ints(size), w.ints(0)])


@exports("nonzero_sized")
def nonzero(w: Writer, op: Operation) -> None:
    """NonZero, turned."""
    size, rank = int(op.attr("size")), len(nth(op).shape)
    if rank == 0:
        raise refuse(op, "ONNX has no places in a number without axes")
    places = w.node("Transpose", [w.node("NonZero", [w.get(nth(op))])], perm=[1, 0])
    w.set(op.outputs[0], _cut(w, places, w.constant(np.full((size, rank), op.attr("fill"), np.int64)), size))


@exports("unique_sized")
def unique(w: Writer, op: Operation) -> None:
    """Unique of all elements."""
    x, size = nth(op), int(op.attr("size"))
    found, _, inverse, counts = w.nodes_out("Unique", [w.get(x)], 4, sorted=1)
    if len(op.attr("fill")):
        rest = w.node("Expand", [w.number(op.attr("fill")[0], x), w.ints(size)])
    else:
        rest = w.node("Expand", [w.node("Slice", [found, w.ints(0), w.ints(1)]), w.ints(size)])
    values, numbers, occurrences = op.outputs
    w.set(values, _cut(w, found, rest, size))
    w.set(numbers, w.node("Min", [w.node("Reshape", [inverse, w.shape(x)]), w.constant(np.array(size, np.int64))]))
    w.set(occurrences, _cut(w, counts, w.constant(np.zeros(size, np.int64)), size))
