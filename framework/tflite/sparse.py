"""Sparse tensors of TensorFlow Lite files as dense arrays.

Levels of the file follow `traversal_order` over the axes of the tensor, those within blocks behind them; a level is
dense, or lists the places that are taken (compressed rows). Source: schema.fbs, "SparsityParameters".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from framework.errors import NotSupportedError
from framework.tflite.flatbuffer import Table

_INDEX_TYPES = {1: "int32", 2: "uint16", 3: "uint8"}


def dense_of(sparsity: Table, data: bytes, kind: np.dtype, shape: Sequence[int], name: str) -> np.ndarray:
    """The dense array of a sparse tensor; what is not listed is 0.

    Args:
        sparsity: the table SparsityParameters.
        data: of the values that are listed, in order.
        kind: their type.
        shape: of the dense array, whose size has been checked.

    Raises:
        CheckpointError: levels, places and values contradict each other.
        NotSupportedError: its places are of a type that is not read.
    """
    fail = sparsity.buffer.fail
    order = [int(d) for d in sparsity.numbers(0, "int32")]
    blocked = [int(d) for d in sparsity.numbers(1, "int32")]
    levels = sparsity.tables(2)
    rank = len(shape)
    if sorted(order) != list(range(len(levels))) or len(levels) != rank + len(blocked):
        raise fail(f"sparse tensor '{name}' of {rank} axes has the order {order} of {len(levels)} levels")
    if any(not 0 <= axis < rank for axis in blocked):
        raise fail(f"sparse tensor '{name}' has blocks along the axes {blocked}")
    sizes = [level.whole(1, "i") for level in levels]
    within = {axis: sizes[order.index(rank + i)] for i, axis in enumerate(blocked)}
    values = np.frombuffer(data, kind.newbyteorder("<")) if len(data) % kind.itemsize == 0 else None
    # The place of each row of a level along every axis so far, level by level.
    places = np.zeros((1, len(levels)), np.int64)
    for i, level in enumerate(levels):
        if level.whole(0, "b") == 0:
            count = level.whole(1, "i")
            if count < 0 or len(places) * count > math.prod(shape):
                raise fail(f"sparse tensor '{name}' has a level of {count}, more than its shape {list(shape)}")
            rows = np.repeat(np.arange(len(places)), count)
            found = np.tile(np.arange(count), len(places))
        else:
            rows, found = _listed(level, len(places), name)
        places = places[rows]
        places[:, order[i]] = found
    at = places[:, :rank].copy()
    for i, axis in enumerate(blocked):
        at[:, axis] = at[:, axis] * within[axis] + places[:, rank + i]
    if values is None or len(values) != len(at):
        raise fail(f"sparse tensor '{name}' lists {len(at)} values and has {len(data)} bytes of {kind}")
    if len(at) and ((at < 0).any() or (at >= np.array(shape)).any()):
        raise fail(f"sparse tensor '{name}' has values outside of its shape {list(shape)}")
    dense = np.zeros(tuple(shape), kind)
    dense[tuple(at.T)] = values
    return dense


def _listed(level: Table, before: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Which row of the level before each entry belongs to, and its place."""
    fail = level.buffer.fail
    starts, places = (_indices(level, field, name) for field in (2, 4))
    steps = np.diff(starts)
    if len(starts) != before + 1 or starts[0] != 0 or (steps < 0).any() or starts[-1] != len(places):
        raise fail(f"sparse tensor '{name}' lists places that do not fit its {before} rows")
    return np.repeat(np.arange(before), steps), places


def _indices(level: Table, field: int, name: str) -> np.ndarray:
    """A vector of places: a union of three types of vectors at `field` and `field` + 1."""
    kind, table = level.whole(field, "B"), level.table(field + 1)
    if kind not in _INDEX_TYPES or table is None:
        raise NotSupportedError(f"{level.buffer.name}: sparse tensor '{name}' has places of a type that is not read")
    return table.numbers(0, _INDEX_TYPES[kind]).astype(np.int64)
