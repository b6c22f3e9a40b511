"""Resizing: two constant matrices, of rows and of columns, whose transposes are the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.xla.lower import Array, Call, rule, wide
from framework.xla.rules.conv import along_rows_and_columns


def _places(extent: int, count: int, align_corners: bool) -> np.ndarray:
    """Where each output lies in the input, not cut at the border."""
    out = np.arange(count, dtype=np.float64)
    if align_corners:
        return out * (extent - 1) / (count - 1) if count > 1 else np.zeros(count)
    return (2 * out + 1) * extent / (2 * count) - 0.5


def _nearest(extent: int, count: int, align_corners: bool) -> np.ndarray:
    return np.eye(extent)[np.arange(count) * extent // count]


def _linear(extent: int, count: int, align_corners: bool) -> np.ndarray:
    at = np.maximum(_places(extent, count, align_corners), 0)
    low = np.minimum(at.astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    weight = np.minimum(at - low, 1.0)
    matrix, rows = np.zeros((count, extent)), np.arange(count)
    np.add.at(matrix, (rows, low), 1 - weight)
    np.add.at(matrix, (rows, high), weight)
    return matrix


def _cubic(extent: int, count: int, align_corners: bool) -> np.ndarray:
    """Keys 1981 with a = -0.75; pixels beyond the border count as those on it."""
    a, at = -0.75, _places(extent, count, align_corners)
    low = np.floor(at).astype(np.int64)
    t = at - low
    near = [lambda d: ((a + 2) * d - (a + 3)) * d * d + 1, lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a]
    weights = [near[1](t + 1), near[0](t), near[0](1 - t), near[1](2 - t)]
    matrix, rows = np.zeros((count, extent)), np.arange(count)
    for k, weight in enumerate(weights):
        np.add.at(matrix, (rows, np.clip(low + k - 1, 0, extent - 1)), weight)
    return matrix


def _declare(name: str, matrix: Any) -> None:
    def matrices(image: Any, result: Any, dtype: Any, align_corners: bool) -> list[np.ndarray]:
        return [matrix(image[i], result[i], align_corners).astype(dtype) for i in (1, 2)]

    @rule(name)
    def forward(call: Call, x: Array, like: Array | None = None, *, align_corners: bool = False, **sizes: Any) -> Array:
        x = wide(x)
        return along_rows_and_columns(x, *matrices(x.shape, call.shape, x.dtype, align_corners))

    @rule(f"{name}_grad")
    def gradient(call: Call, dy: Array, like: Array, *, align_corners: bool = False) -> Array:
        dy = wide(dy)
        rows, columns = matrices(like.shape, dy.shape, dy.dtype, align_corners)
        return along_rows_and_columns(dy, rows.T, columns.T)


_declare("resize_nearest", _nearest)
_declare("resize_bilinear", _linear)
_declare("resize_bicubic", _cubic)
