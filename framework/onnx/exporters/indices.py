"""Reading, writing and ordering by index as nodes of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.writer import Writer, element_number, exports, nth, rank_of


@exports("gather")
def gather(w: Writer, op: Operation) -> None:
    """Gather."""
    w.set(op.outputs[0], w.node("Gather", [w.get(nth(op)), w.get(nth(op, 1))], axis=int(op.attr("axis"))))


@exports("scatter")
def scatter(w: Writer, op: Operation) -> None:
    """ScatterND with the axis first. ONNX leaves open which of several updates of one place counts."""
    x, indices, updates = (nth(op, i) for i in range(3))
    axis, many = int(op.attr("axis")) % rank_of(op), len(indices.shape)
    front = [axis, *(a for a in range(rank_of(op)) if a != axis)]
    rows = [*range(axis, axis + many), *(a for a in range(len(updates.shape)) if not axis <= a < axis + many)]
    extent = w.node("Gather", [w.shape(x), w.constant(np.array(axis, np.int64))])
    wide = w.node("Cast", [w.get(indices)], to=7)
    wide = w.node(
        "Where", [w.node("Less", [wide, w.constant(np.array(0, np.int64))]), w.node("Add", [wide, extent]), wide]
    )
    turned = [w.node("Transpose", [w.get(v)], perm=p) for v, p in ((x, front), (updates, rows))]
    y = w.node("ScatterND", [turned[0], w.node("Unsqueeze", [wide, w.ints(-1)]), turned[1]])
    w.set(op.outputs[0], w.node("Transpose", [y], perm=[int(a) for a in np.argsort(front)]))


@exports("gather_nd")
def gather_nd(w: Writer, op: Operation) -> None:
    """GatherND."""
    w.set(op.outputs[0], w.node("GatherND", [w.get(nth(op)), w.node("Cast", [w.get(nth(op, 1))], to=7)]))


@exports("scatter_nd_add")
def scatter_nd_add(w: Writer, op: Operation) -> None:
    """ScatterND that adds."""
    inputs = [w.get(nth(op)), w.node("Cast", [w.get(nth(op, 1))], to=7), w.get(nth(op, 2))]
    w.set(op.outputs[0], w.node("ScatterND", inputs, reduction="add"))


@exports("embedding")
def embedding(w: Writer, op: Operation) -> None:
    """Gather; rows of the padding id are zeros."""
    y = w.node("Gather", [w.get(nth(op)), w.get(nth(op, 1))], axis=0)
    padding = int(op.attr("padding_idx"))
    if padding >= 0:
        is_padding = w.node("Equal", [w.get(nth(op, 1)), w.number(padding, nth(op, 1))])
        y = w.node("Where", [w.node("Unsqueeze", [is_padding, w.ints(-1)]), w.number(0, nth(op)), y])
    w.set(op.outputs[0], y)


@exports("take_along_axis")
def take_along_axis(w: Writer, op: Operation) -> None:
    """GatherElements."""
    axis = int(op.attr("axis")) % rank_of(op)
    w.set(op.outputs[0], w.node("GatherElements", [w.get(nth(op)), w.get(nth(op, 1))], axis=axis))


@exports("one_hot")
def one_hot(w: Writer, op: Operation) -> None:
    """Equal with all places: OneHot takes no 0-d indices."""
    ids = w.node("Cast", [w.node("Unsqueeze", [w.get(nth(op)), w.ints(-1)])], to=7)
    hit = w.node("Equal", [ids, w.constant(np.arange(int(op.attr("depth"))))])
    w.set(op.outputs[0], w.node("Cast", [hit], to=element_number(op.outputs[0])))


@exports("topk")
def topk(w: Writer, op: Operation) -> None:
    """TopK."""
    _topk(w, op, w.ints(int(op.attr("k"))), op.attr("largest"))


@exports("sort")
def sort(w: Writer, op: Operation) -> None:
    """TopK of all elements."""
    axis = op.attr("axis") % rank_of(op)
    extent = w.node("Shape", [w.get(nth(op))], start=axis, end=axis + 1)
    _topk(w, op, extent, op.attr("descending"))


def _topk(w: Writer, op: Operation, k: str, largest: Any) -> None:
    axis = op.attr("axis") % rank_of(op)
    outs = w.nodes_out("TopK", [w.get(nth(op)), k], 2, axis=axis, largest=int(bool(largest)), sorted=1)
    for v, name in zip(op.outputs, outs, strict=True):
        w.set(v, name)
