"""Ragged operators as nodes of ONNX, which has no ragged tensors: sequence numbers stand for the offsets.

Attention is written as the composition it stands for, one masked T x T matrix a head: right for every batch, and of a
cost that grows with the square of all tokens, not of the longest sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.writer import Writer, element_number, exports, refuse
from framework.ops.compositions import composition_of
from framework.tensor import Tensor, tensor

_INT64, _END = 7, 2**62


def _input(op: Operation, name: str) -> Value:
    v = op.input(name)
    assert v is not None
    return v


@exports("ragged_attention", "ragged_self_attention")
def attention(w: Writer, op: Operation) -> None:
    """The composition's nodes in place of the operator."""
    import framework

    attrs = {spec["name"]: value for spec, value in zip(op.info.attrs, op.attrs, strict=True)}
    if attrs["p"]:
        raise refuse(op, "weights are dropped at random; export a model in evaluation mode")
    given = [v for v in op.inputs if v is not None]

    def composed(*tensors: Tensor) -> Any:
        found = iter(tensors)
        return composition_of(op.info)(*(None if v is None else next(found) for v in op.inputs), **attrs)

    with framework.no_grad():
        examples = [tensor(np.zeros(v.shape, v.dtype)) for v in given]  # their shapes alone count
        traced = framework.program(composed, pass_names=("merge_equal_operations", "drop_dead_code"))
        block = traced.program_for(*examples).program
    for v, name in zip(op.outputs, w.inline(block, [w.get(v) for v in given]), strict=True):
        w.set(v, name)


class _Rows:
    """Of each row its number, that of its sequence, and where sequences begin and end."""

    def __init__(self, w: Writer, op: Operation, like: Value) -> None:
        self.w = w
        offsets = w.node("Cast", [w.get(_input(op, "offsets"))], to=_INT64)
        self.begins = w.node("Slice", [offsets, w.ints(0), w.ints(-1)])
        self.ends = w.node("Slice", [offsets, w.ints(1), w.ints(_END)])
        extent = w.node("Gather", [w.shape(like), w.constant(np.array(0, np.int64))])
        zero, one = (w.constant(np.array(i, np.int64)) for i in (0, 1))
        self.rows = w.node("Range", [zero, extent, one])
        # A row belongs to the sequence after all those that end at it or before.
        ended = w.node("GreaterOrEqual", [self.column(self.rows), self.row(self.ends)])
        self.segments = w.node("ReduceSum", [w.node("Cast", [ended], to=_INT64), w.ints(1)], keepdims=0)

    def column(self, name: str) -> str:
        return self.w.node("Unsqueeze", [name, self.w.ints(1)])

    def row(self, name: str) -> str:
        return self.w.node("Unsqueeze", [name, self.w.ints(0)])

    def of_sequence(self, name: str) -> str:
        """What a vector [B] holds for each row's sequence, [T]."""
        return self.w.node("Gather", [name, self.segments])

    def members(self, dtype: int) -> str:
        """1 where a row belongs to a sequence, [B, T]."""
        count = self.w.node("Squeeze", [self.w.node("Shape", [self.ends])])
        zero, one = (self.w.constant(np.array(i, np.int64)) for i in (0, 1))
        numbers = self.w.node("Range", [zero, count, one])
        same = self.w.node("Equal", [self.column(numbers), self.row(self.segments)])
        return self.w.node("Cast", [same], to=dtype)


@exports("ragged_segments", "ragged_positions")
def numbers(w: Writer, op: Operation) -> None:
    """Counted from the offsets."""
    r = _Rows(w, op, _input(op, "like"))
    position = op.name == "ragged_positions"
    w.set(op.outputs[0], w.node("Sub", [r.rows, r.of_sequence(r.begins)]) if position else r.segments)


@exports("segment_sum", "segment_mean")
def segment(w: Writer, op: Operation) -> None:
    """A product with the matrix of who belongs where."""
    x = _input(op, "x")
    r = _Rows(w, op, x)
    dtype = element_number(x)
    flat = w.node("Reshape", [w.get(x), w.ints(0, -1)]) if len(x.shape) > 1 else r.column(w.get(x))
    y = w.node("MatMul", [r.members(dtype), flat])
    if op.name == "segment_mean":
        rows = w.node("Max", [w.node("Sub", [r.ends, r.begins]), w.ints(1)])
        y = w.node("Div", [y, r.column(w.node("Cast", [rows], to=dtype))])
    tail = w.node("Slice", [w.shape(x), w.ints(1), w.ints(_END)])
    shape = w.node("Concat", [w.ints(-1), tail], axis=0)
    w.set(op.outputs[0], w.node("Reshape", [y, shape]))


@exports("segment_spread")
def spread(w: Writer, op: Operation) -> None:
    """Gather by the number of the sequence."""
    r = _Rows(w, op, _input(op, "like"))
    w.set(op.outputs[0], w.node("Gather", [w.get(_input(op, "x")), r.segments], axis=0))


@exports("ragged_window")
def window(w: Writer, op: Operation) -> None:
    """For each place of the window a Gather, and zeros where it leaves the sequence."""
    x = _input(op, "x")
    r = _Rows(w, op, x)
    begins, lasts = r.of_sequence(r.begins), w.node("Sub", [r.of_sequence(r.ends), w.ints(1)])
    parts = []
    for shift in range(-int(op.attr("before")), int(op.attr("after")) + 1):
        at = w.node("Add", [r.rows, w.ints(shift)])
        inside = w.node("Max", [w.node("Min", [at, lasts]), begins])
        taken = w.node("Gather", [w.get(x), inside], axis=0)
        stays = r.column(w.node("Cast", [w.node("Equal", [inside, at])], to=element_number(x)))
        parts.append(w.node("Mul", [taken, stays]))
    w.set(op.outputs[0], w.node("Concat", parts, axis=1))
