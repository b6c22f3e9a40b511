"""Ragged operators as nodes of ONNX, which has no ragged tensors: sequence numbers stand for the offsets.

Attention stands in composed.py: right for every batch, and of a cost that grows with the square of all tokens, not of
the longest sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.writer import Writer, element_number, exports

_INT64, _END = 7, 2**62


def input_of(op: Operation, name: str) -> Value:
    """An input that is always there."""
    v = op.input(name)
    assert v is not None
    return v


class Rows(NamedTuple):
    """Names of the row numbers [T], the numbers of their sequences [T], and where sequences begin and end [B]."""

    rows: str
    segments: str
    begins: str
    ends: str


def rows_of(w: Writer, op: Operation, like: Value) -> Rows:
    """Counted from the operation's offsets; `like` has the rows."""
    offsets = w.node("Cast", [w.get(input_of(op, "offsets"))], to=_INT64)
    begins = w.node("Slice", [offsets, w.ints(0), w.ints(-1)])
    ends = w.node("Slice", [offsets, w.ints(1), w.ints(_END)])
    rows = count_up(w, w.node("Gather", [w.shape(like), w.constant(np.array(0, np.int64))]))
    # A row belongs to the sequence after all those that end at it or before.
    ended = w.node("GreaterOrEqual", [column(w, rows), row(w, ends)])
    segments = w.node("ReduceSum", [w.node("Cast", [ended], to=_INT64), w.ints(1)], keepdims=0)
    return Rows(rows, segments, begins, ends)


def count_up(w: Writer, extent: str) -> str:
    """0, 1, ... up to a number."""
    zero, one = (w.constant(np.array(i, np.int64)) for i in (0, 1))
    return w.node("Range", [zero, extent, one])


def column(w: Writer, name: str) -> str:
    """A vector [n] as [n, 1]."""
    return w.node("Unsqueeze", [name, w.ints(1)])


def row(w: Writer, name: str) -> str:
    """A vector [n] as [1, n]."""
    return w.node("Unsqueeze", [name, w.ints(0)])


def of_sequence(w: Writer, r: Rows, name: str) -> str:
    """What a vector [B] holds for each row's sequence, [T]."""
    return w.node("Gather", [name, r.segments])


def _members(w: Writer, r: Rows, dtype: int) -> str:
    """1 where a row belongs to a sequence, [B, T]."""
    numbers = count_up(w, w.node("Squeeze", [w.node("Shape", [r.ends])]))
    return w.node("Cast", [w.node("Equal", [column(w, numbers), row(w, r.segments)])], to=dtype)


@exports("ragged_segments")
def segments(w: Writer, op: Operation) -> None:
    """Counted from the offsets."""
    w.set(op.outputs[0], rows_of(w, op, input_of(op, "like")).segments)


@exports("ragged_positions")
def positions(w: Writer, op: Operation) -> None:
    """The row's number less that of its sequence's first row."""
    r = rows_of(w, op, input_of(op, "like"))
    w.set(op.outputs[0], w.node("Sub", [r.rows, of_sequence(w, r, r.begins)]))


@exports("segment_sum")
def segment_sum(w: Writer, op: Operation) -> None:
    """A product with the matrix of who belongs where."""
    x = input_of(op, "x")
    _set_flat(w, op, _sums(w, rows_of(w, op, x), x))


@exports("segment_mean")
def segment_mean(w: Writer, op: Operation) -> None:
    """The sum divided by the number of rows."""
    x = input_of(op, "x")
    r = rows_of(w, op, x)
    count = w.node("Max", [w.node("Sub", [r.ends, r.begins]), w.ints(1)])
    count = w.node("Cast", [column(w, count)], to=element_number(x))
    _set_flat(w, op, w.node("Div", [_sums(w, r, x), count]))


def _sums(w: Writer, r: Rows, x: Value) -> str:
    """Sums over sequences of x [T, ...] as [B, elements of a row]."""
    flat = w.node("Reshape", [w.get(x), w.ints(0, -1)]) if len(x.shape) > 1 else column(w, w.get(x))
    return w.node("MatMul", [_members(w, r, element_number(x)), flat])


def _set_flat(w: Writer, op: Operation, name: str) -> None:
    """The result from [B, elements of a row]: with the axes of a row of x."""
    tail = w.node("Slice", [w.shape(input_of(op, "x")), w.ints(1), w.ints(_END)])
    shape = w.node("Concat", [w.ints(-1), tail], axis=0)
    w.set(op.outputs[0], w.node("Reshape", [name, shape]))


@exports("segment_spread")
def spread(w: Writer, op: Operation) -> None:
    """Gather by the number of the sequence."""
    r = rows_of(w, op, input_of(op, "like"))
    w.set(op.outputs[0], w.node("Gather", [w.get(input_of(op, "x")), r.segments], axis=0))


@exports("ragged_window")
def window(w: Writer, op: Operation) -> None:
    """For each place of the window a Gather, and zeros where it leaves the sequence."""
    x = input_of(op, "x")
    r = rows_of(w, op, x)
    begins, lasts = of_sequence(w, r, r.begins), w.node("Sub", [of_sequence(w, r, r.ends), w.ints(1)])
    parts = []
    for shift in range(-int(op.attr("before")), int(op.attr("after")) + 1):
        at = w.node("Add", [r.rows, w.ints(shift)])
        inside = w.node("Max", [w.node("Min", [at, lasts]), begins])
        taken = w.node("Gather", [w.get(x), inside], axis=0)
        stays = column(w, w.node("Cast", [w.node("Equal", [inside, at])], to=element_number(x)))
        parts.append(w.node("Mul", [taken, stays]))
    w.set(op.outputs[0], w.node("Concat", parts, axis=1))


@exports("segment_outer")
def segment_outer(w: Writer, op: Operation) -> None:
    """Products in which the rows of other sequences are 0: right for every batch, of a cost that grows with T B."""
    x, z = input_of(op, "x"), input_of(op, "z")
    members = w.node("Unsqueeze", [_members(w, rows_of(w, op, x), element_number(x)), w.ints(1)])  # [B, 1, T]
    turned = w.node("Transpose", [w.get(x)], perm=[1, 0])
    w.set(op.outputs[0], w.node("MatMul", [w.node("Mul", [members, turned]), w.get(z)]))


@exports("segment_product")
def segment_product(w: Writer, op: Operation) -> None:
    """Every row times every matrix, of which its sequence's is taken: right for every batch, of a cost of T B."""
    x, m = input_of(op, "x"), input_of(op, "m")
    members = w.node("Unsqueeze", [_members(w, rows_of(w, op, x), element_number(x)), w.ints(2)])  # [B, T, 1]
    matrices = w.node("Transpose", [w.get(m)], perm=[0, 2, 1]) if op.attr("transpose_m") else w.get(m)
    each = w.node("MatMul", [w.get(x), matrices])  # [B, T, D]
    w.set(op.outputs[0], w.node("ReduceSum", [w.node("Mul", [each, members]), w.ints(0)], keepdims=0))
