"""What the converters share: types, constants, axes, and the layout of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import to_tensor
from framework.ops.axes import axis_of as axis_of
from framework.tensors import Tensor


def is_float(x: Tensor) -> bool:
    """Whether the core computes with fractions in x's type."""
    return x.dtype in ("float32", "float64")


def constant(array: Any, dtype: str | None = None) -> Tensor:
    """A Tensor of known data."""
    return to_tensor(np.asarray(array, dtype=dtype))


def like(x: Tensor, value: float) -> Tensor:
    """A 0-d constant of x's type."""
    return ops.full(shape=(), value=float(value), dtype=x.dtype)


def to_front(x: Tensor) -> Tensor:
    """[N, C, *spatial] -> [N, *spatial, C]."""
    return ops.transpose(x, perm=[0, *range(2, x.ndim), 1])


def to_back(x: Tensor) -> Tensor:
    """[N, *spatial, C] -> [N, C, *spatial]."""
    return ops.transpose(x, perm=[0, x.ndim - 1, *range(1, x.ndim - 1)])


def moved(x: Tensor, source: int, target: int) -> Tensor:
    """One axis at another place, the others in order."""
    perm = [a for a in range(x.ndim) if a != source % x.ndim]
    perm.insert(target % x.ndim, source % x.ndim)
    return x if perm == list(range(x.ndim)) else ops.transpose(x, perm=perm)


def per_channel(v: Tensor, rank: int) -> Tensor:
    """A vector [C] that broadcasts over [N, C, *spatial] of `rank` axes."""
    return ops.reshape(v, shape=[1, -1, *(1 for _ in range(rank - 2))])


def extents(x: Tensor) -> tuple[int, ...]:
    """The shape of x; reading it while tracing ties the Program to the shapes at hand."""
    return x.shape
