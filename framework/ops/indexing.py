"""x[index]: what an index in brackets means in terms of operators.

Integers, slices, None and Ellipsis become one slice and views; one integer Tensor becomes a gather on its axis. No
extent is read, so that a traced Program keeps working for other shapes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, NotSupportedError, ShapeError
from framework.ops import functions
from framework.ops.functions import expand_dims, gather, reshape, squeeze
from framework.tensors import Tensor, tensor

_FAR = 2**62  # beyond any extent: slice cuts it


@dataclass
class _Plan:
    """What an index comes to, in the order in which it is done."""

    starts: list[int] = field(default_factory=list)  # of the slice, with the next three
    ends: list[int] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    gathers: list[tuple[int, Tensor]] = field(default_factory=list)  # axis of x, indices
    dropped: list[int] = field(default_factory=list)  # axes of x that an integer took away
    new: list[int] = field(default_factory=list)  # for each None the axes of x before it

    def cut(self, axis: int, start: int, end: int, step: int = 1) -> None:
        """Adds one axis to the slice."""
        self.starts.append(start)
        self.ends.append(end)
        self.axes.append(axis)
        self.steps.append(step)


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index] with integers, slices, None, Ellipsis, and at most one int32 or int64 Tensor; or x[mask].

    Args:
        x: any shape.
        index: as in NumPy; an integer drops its axis, None adds one of extent 1, a Tensor's axes replace its axis. A
            bool Tensor or array of x's shape, or of its first axes, stands alone and gives [number of True, ...].

    Raises:
        AttributeValueError: an integer lies outside its axis.
        ShapeError: more indices than axes.
        ShapeError: a mask of another shape.
        NotSupportedError: several Tensors (use `gather` or `take_along_axis`), or a mask while a Program is traced.
    """
    mask = as_mask(index)
    if mask is not None:
        return _masked(x, mask)
    plan = _plan(x, _completed(x, index if isinstance(index, tuple) else (index,)))
    y = x
    if plan.axes:
        y = functions.slice(x, starts=plan.starts, ends=plan.ends, axes=plan.axes, steps=plan.steps)
    for axis, indices in plan.gathers:
        y = gather(y, indices, axis=axis)
    shift = {axis: indices.ndim - 1 for axis, indices in plan.gathers}

    def place(axis: int) -> int:  # of an axis of x in y before axes are dropped
        return axis + sum(more for at, more in shift.items() if at < axis)

    for axis in reversed(plan.dropped):
        y = squeeze(y, axis=place(axis))
    for k, axis in enumerate(plan.new):
        y = expand_dims(y, axis=place(axis) - sum(d < axis for d in plan.dropped) + k)
    return y


def _masked(x: Tensor, mask: Tensor) -> Tensor:
    """The elements, or rows along the mask's axes, where it is true."""
    if mask.is_traced or x.is_traced:
        raise NotSupportedError(
            "getitem: a mask gives a shape that depends on data, which a Program does not have; use where, or gather "
            "with nonzero(mask, size=...)"
        )
    expect_fitting(x, mask)
    rows = tensor(np.flatnonzero(mask.numpy()))
    return gather(rows_of(x, mask.ndim), rows, axis=0)


def as_mask(index: Any) -> Tensor | None:
    """The index as a bool tensor, where it is one."""
    if isinstance(index, np.ndarray) and index.dtype == np.bool_:
        return tensor(index)
    if isinstance(index, list) and index and all(isinstance(i, (bool, np.bool_)) for i in index):
        return tensor(index)
    return index if isinstance(index, Tensor) and index.dtype == "bool" else None


def expect_fitting(x: Tensor, mask: Tensor) -> None:
    """Refuses a mask that is not of the shape of x's first axes."""
    if mask.shape != x.shape[: mask.ndim]:
        raise ShapeError(f"getitem: a mask of shape {list(mask.shape)} does not fit a tensor of shape {list(x.shape)}")


def rows_of(x: Tensor, axes: int) -> Tensor:
    """x with its first axes in one."""
    return reshape(x, shape=(-1, *x.shape[axes:]))


def _completed(x: Tensor, index: Sequence[Any]) -> list[Any]:
    """The index with its Ellipsis written out."""
    used = sum(i is not None and i is not Ellipsis for i in index)
    if used > x.ndim:
        raise ShapeError(f"getitem: {used} indices for a tensor of {x.ndim} axes")
    dots = [k for k, i in enumerate(index) if i is Ellipsis]
    if len(dots) > 1:
        raise AttributeValueError("getitem: an index holds at most one '...'")
    at = dots[0] if dots else len(index)
    rest = [slice(None)] * (x.ndim - used)
    return [*index[:at], *rest, *index[at + 1 :]]


def _plan(x: Tensor, index: Sequence[Any]) -> _Plan:
    plan, axis = _Plan(), 0
    for i in index:
        if i is None:
            plan.new.append(axis)
            continue
        if isinstance(i, slice):
            _add_slice(plan, axis, i)
        elif isinstance(i, (Tensor, list)) or (isinstance(i, np.ndarray) and i.ndim):
            _add_gather(plan, axis, i)
        else:
            _add_integer(plan, axis, i, x)
        axis += 1
    return plan


def _add_slice(plan: _Plan, axis: int, s: slice) -> None:
    step = 1 if s.step is None else _integer(s.step)
    if step == 0:
        raise AttributeValueError(f"getitem: step 0 on axis {axis}; a step is at least 1, or negative")
    start = (0 if step > 0 else _FAR) if s.start is None else _integer(s.start)
    end = (_FAR if step > 0 else -_FAR) if s.stop is None else _integer(s.stop)
    if (start, end, step) != (0, _FAR, 1):
        plan.cut(axis, start, end, step)


def _add_integer(plan: _Plan, axis: int, i: Any, x: Tensor) -> None:
    i = _integer(i)
    extent = (x._value.shape if x._value is not None else x.shape)[axis]
    if not -extent <= i < extent:
        raise AttributeValueError(f"getitem: index {i} is out of range for axis {axis} of extent {extent}")
    plan.cut(axis, i, i + 1 if i != -1 else _FAR)
    plan.dropped.append(axis)


def _add_gather(plan: _Plan, axis: int, indices: Any) -> None:
    if not isinstance(indices, Tensor):
        indices = tensor(indices)
    if indices.dtype not in ("int32", "int64"):
        raise NotSupportedError(
            f"getitem: an index of type {indices.dtype} beside others; a mask stands alone, other indices are integers"
        )
    if plan.gathers:
        raise NotSupportedError("getitem: one Tensor at most in an index; use gather on one axis after the other")
    plan.gathers.append((axis, indices))


def _integer(i: Any) -> int:
    try:
        if isinstance(i, (bool, np.bool_)):
            raise TypeError
        return operator.index(i)
    except TypeError:
        raise AttributeValueError(
            f"getitem: {i!r} is no index; takes integers, slices, None, '...' and an integer Tensor"
        ) from None
