"""Pooling of ONNX over one, two or three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node, shape_of
from framework.onnx.operators.common import constant, extents, is_float, to_back, to_front
from framework.onnx.operators.shapes import prod
from framework.onnx.operators.windows import Window, is_static, numbers, pads_of, windows
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("GlobalAveragePool", compute="float")
def global_average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean of each channel."""
    return ops.mean(x, axes=list(range(2, x.ndim)), keepdims=True)


@onnx_op("GlobalMaxPool", compute="float")
def global_max_pool(node: Node, x: Tensor) -> Tensor:
    """The largest of each channel."""
    return ops.max(x, axes=list(range(2, x.ndim)), keepdims=True)


@onnx_op("GlobalLpPool", compute="float")
def global_lp_pool(node: Node, x: Tensor) -> Tensor:
    """The p-norm of each channel."""
    p = float(node.attr("p", 2))
    total = ops.sum(ops.pow(ops.abs(x), p), axes=list(range(2, x.ndim)), keepdims=True)
    return ops.pow(total, 1.0 / p)


def _plain(node: Node, x: Tensor) -> list[int] | None:
    """Padding for the core's two-dimensional pooling, where it can do what the node asks for."""
    kernel = node.attr("kernel_shape")
    if x.ndim != 4 or not is_static(node) or any(d != 1 for d in numbers(node, "dilations", 2, 1)):
        return None
    pads = pads_of(node, 2) if node.attr("auto_pad", "NOTSET") == "NOTSET" else [(0, 0), (0, 0)]
    shape = shape_of(x)
    sizes = [n + a + b - k + 1 for n, (a, b), k in zip(shape[2:], pads, kernel, strict=True)]
    node.limit([*shape[:2], *(max(0, n) // s + 1 for n, s in zip(sizes, numbers(node, "strides", 2, 1), strict=True))])
    fits = all(a < k and b < k for (a, b), k in zip(pads, kernel, strict=True))
    return [p for pair in pads for p in pair] if fits else None


@onnx_op("MaxPool", compute="float")
def max_pool(node: Node, x: Tensor) -> Any:
    """The largest of each window, and where it stands."""
    takes = is_float(x) or x.dtype in ("uint8", "int8")
    padding = _plain(node, x) if takes and not node.wants(1) else None
    if padding is not None:
        y = ops.max_pool2d(
            to_front(x),
            kernel=node.attr("kernel_shape"),
            stride=numbers(node, "strides", 2, 1),
            padding=padding,
            ceil_mode=bool(node.attr("ceil_mode", 0)),
        )
        return to_back(y)
    if not is_float(x):
        return ops.cast(max_pool(node, ops.cast(x, dtype="float32")), dtype=x.dtype)
    found = _windows(node, x)
    if node.wants(1):
        return _max_with_indices(node, x, found)
    return _by_axis(node, x, found, lambda y, axis: ops.max(y, axes=[axis]), float("-inf"))


def _windows(node: Node, x: Tensor) -> list[Window]:
    """The windows of a pooling node; each holds a part of the image, as ONNX Runtime asks for."""
    axes = x.ndim - 2
    found = windows(node, extents(x)[2:], numbers(node, "kernel_shape", axes, 1))
    for w in found:
        node.grown([w.count, w.taps], w.extent)
        reach = (w.taps - 1) * w.dilation + 1
        if max(w.before, w.after) >= reach:
            raise node.fail(f"pads ({w.before}, {w.after}) are not smaller than the window, which reaches over {reach}")
    return found


def _by_axis(
    node: Node, x: Tensor, found: Sequence[Window], reduce: Callable[[Tensor, int], Tensor], padding: float
) -> Tensor:
    """Reduces windows one axis after the other."""
    for i, w in enumerate(found):
        axis = 2 + i
        size = extents(x)
        node.grown([*size[:axis], w.count, w.taps, *size[axis + 1 :]], prod(size))
        table = w.positions()
        low, high = max(0, -int(table.min())), max(0, int(table.max()) + 1 - w.extent)
        pads = [0] * (2 * x.ndim)
        pads[2 * axis], pads[2 * axis + 1] = low, high
        padded = ops.pad(x, pads=pads, value=padding)
        x = reduce(ops.gather(padded, constant(table + low, "int64"), axis=axis), axis + 1)
    return x


def _max_with_indices(node: Node, x: Tensor, found: Sequence[Window]) -> tuple[Tensor, Tensor]:
    n, c, *spatial = extents(x)
    taps = [prod([w.count for w in found]), prod([w.taps for w in found])]
    node.grown([n, c, *taps], prod([n, c, *spatial]))
    places, inside = _tables(found)  # [windows, taps]
    if node.attr("storage_order", 0):
        shown = np.zeros_like(places)
        step = 1
        for extent, coordinate in zip(spatial, np.unravel_index(places, spatial), strict=True):
            shown += coordinate * step
            step *= extent
    else:
        shown = places
    flat = ops.reshape(x, shape=[n, c, prod(spatial)])
    taken = ops.gather(flat, constant(places, "int64"), axis=2)
    taken = ops.where(constant(inside), taken, ops.full(shape=(), value=float("-inf"), dtype=x.dtype))
    best = ops.argmax(taken, axis=3, keepdims=True)
    shape = [n, c, *(w.count for w in found)]
    shown_all = ops.broadcast_to(constant(shown, "int64"), shape=[n, c, *shown.shape])
    indices = ops.take_along_axis(shown_all, best, axis=3)
    image = np.arange(n * c).reshape(n, c, 1, 1) * prod(spatial)
    return (
        ops.reshape(ops.max(taken, axes=[3]), shape=shape),
        ops.reshape(indices + constant(image, "int64"), shape=shape),
    )


def _tables(found: Sequence[Window]) -> tuple[np.ndarray, np.ndarray]:
    """For each window its taps' flat positions, and whether they lie in the image: [windows, taps]."""
    flat: np.ndarray = np.zeros((1, 1), np.int64)
    inside: np.ndarray = np.ones((1, 1), bool)
    for w in found:
        table = w.positions()
        ok = (table >= 0) & (table < w.extent)
        flat = flat[:, None, :, None] * w.extent + np.where(ok, table, 0)[None, :, None, :]
        inside = inside[:, None, :, None] & ok[None, :, None, :]
        flat = flat.reshape(flat.shape[0] * flat.shape[1], -1)
        inside = inside.reshape(flat.shape)
    return flat, inside


@onnx_op("AveragePool", compute="float")
def average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean of each window, of the pixels in it or with the padding."""
    padding, with_padding = _plain(node, x) if is_float(x) else None, bool(node.attr("count_include_pad", 0))
    if padding is not None:
        y = ops.avg_pool2d(
            to_front(x),
            kernel=node.attr("kernel_shape"),
            stride=numbers(node, "strides", 2, 1),
            padding=padding,
            ceil_mode=bool(node.attr("ceil_mode", 0)),
            count_include_pad=with_padding,
        )
        return to_back(y)
    found = _windows(node, x)
    total = _by_axis(node, x, found, lambda y, axis: ops.sum(y, axes=[axis]), 0.0)
    return total / constant(_counts(found, with_padding), x.dtype)


def _counts(found: Sequence[Window], with_padding: bool) -> np.ndarray:
    """How many elements each window is the mean of: [*windows]."""
    counts = np.ones(())
    for w in found:
        low, high = (-w.before, w.extent + w.after) if with_padding else (0, w.extent)
        places = w.positions()
        counts = counts[..., None] * ((low <= places) & (places < high)).sum(axis=1)
    return counts


@onnx_op("LpPool", compute="float")
def lp_pool(node: Node, x: Tensor) -> Tensor:
    """The p-norm of each window."""
    p = float(node.attr("p", 2))
    found = _windows(node, x)
    total = _by_axis(node, ops.pow(ops.abs(x), p), found, lambda y, axis: ops.sum(y, axes=[axis]), 0.0)
    return ops.pow(total, 1.0 / p)


@onnx_op("MaxUnpool", compute="float")
def max_unpool(node: Node, x: Tensor, indices: Tensor, output_shape: Tensor | None = None) -> Tensor:
    """Each value at its index in an image of zeros."""
    n, c, *spatial = extents(x)
    axes = len(spatial)
    kernel, strides = numbers(node, "kernel_shape", axes, 1), numbers(node, "strides", axes, 1)
    small = [
        (e - 1) * s + k - a - b for e, s, k, (a, b) in zip(spatial, strides, kernel, pads_of(node, axes), strict=True)
    ]
    shape = [n, c, *small] if output_shape is None else node.ints(output_shape, "output shape")
    node.limit(shape)
    where = indices
    if shape[2:] != small:  # indices count in the smallest image
        coordinates = np.unravel_index(node.host(indices, "indices"), [n, c, *small])
        where = constant(np.ravel_multi_index(coordinates, shape), "int64")
    zeros = ops.full(shape=[prod(shape)], value=0.0, dtype=x.dtype)
    flat = ops.scatter_add(zeros, ops.reshape(where, shape=[-1]), ops.reshape(x, shape=[-1]))
    return ops.reshape(flat, shape=shape)
