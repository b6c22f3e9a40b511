"""x[index] = value: what assigning to a part of a tensor means in terms of operators.

Assigning makes a new value that takes the old one's place in `x`, as `x = scatter(x, ...)` would: gradients flow
through both parts, a Program records it, and tensors made from `x` before keep what they had. It costs a copy of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.context import context
from framework.errors import GradientError, NotSupportedError
from framework.ops.functions import broadcast_to, cast, expand_dims, reshape, scatter, where
from framework.ops.indexing import as_mask, expect_fitting, getitem, rows_of
from framework.tensors import Tensor, tensor


def assign(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value.

    Args:
        x: any shape; not a leaf that gradients are wanted for, but inside `no_grad`.
        index: as in `getitem`, or a bool Tensor or array of x's shape or of its first axes. Where an index names an
            element twice, the last value stays.
        value: a number, array or Tensor that broadcasts to x[index]; cast to x's type.

    In a Program the result is right for the shapes of the trace; a mask whose value has one entry for each True place
    is eager only.

    Raises:
        GradientError: x is a leaf that requires a gradient.
        ShapeError: the value does not broadcast to x[index].
    """
    is_leaf = x.requires_grad and x.node is None
    if is_leaf and context.grad_enabled:
        raise GradientError(
            f"assign: {x.name or 'this tensor'} is a leaf that requires a gradient; assign inside no_grad(), or to a "
            "result of operators such as x * 1.0"
        )
    mask = as_mask(index)
    new = _where_true(x, mask, value) if mask is not None else _at(x, index, _of_type(value, x))
    if x.persistable:
        x.set(new)
        return
    x._data, x._value = new._data, new._value
    if not is_leaf:
        x.node, x.requires_grad = new.node, new.requires_grad


def _of_type(value: Any, like: Tensor) -> Tensor:
    value = value if isinstance(value, Tensor) else tensor(value)
    return value if value.dtype == like.dtype else cast(value, dtype=like.dtype)


def _where_true(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    expect_fitting(x, mask)
    value = _of_type(value, x)
    inner = x.ndim - mask.ndim
    if value.ndim <= inner:
        for _ in range(inner):
            mask = expand_dims(mask, axis=-1)
        return where(mask, value, x)
    if mask.is_traced:
        raise NotSupportedError("assign: a value for each True place needs their number; in a Program give one for all")
    rows = tensor(np.flatnonzero(mask.numpy()))
    return _scattered(x, rows, value, (rows.shape[0], *x.shape[mask.ndim :]), mask.ndim)


def _at(x: Tensor, index: Any, value: Tensor) -> Tensor:
    places = getitem(tensor(np.arange(x.size).reshape(x.shape)), index)
    return _scattered(x, reshape(places, shape=(-1,)), value, places.shape, x.ndim)


def _scattered(x: Tensor, rows: Tensor, value: Tensor, shape: tuple[int, ...], axes: int) -> Tensor:
    """x, its first axes as one, with the value broadcast to `shape` at these rows."""
    if value.shape != shape:
        value = broadcast_to(value, shape=shape)
    if x.size == 0:  # nothing to replace, and a 0 in a shape to reshape to would copy an extent
        return x
    value = reshape(value, shape=(rows.shape[0], *x.shape[axes:]))
    return reshape(scatter(rows_of(x, axes), rows, value), shape=x.shape)
