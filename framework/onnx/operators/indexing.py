"""Operators of ONNX that read and write by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node, to_tensor
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.operators.shapes import prod
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("Gather")
def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Slices by index."""
    return ops.gather(x, indices, axis=node.attr("axis", 0))


@onnx_op("GatherElements")
def gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """One element for each index along an axis."""
    axis = axis_of(node.attr("axis", 0), x.ndim)
    have, want = extents(x), extents(indices)
    cut = [a for a in range(x.ndim) if a != axis and want[a] != have[a]]
    if cut:
        x = ops.slice(x, starts=[0] * len(cut), ends=[want[a] for a in cut], axes=cut)
    return ops.take_along_axis(x, indices, axis=axis)


def _flat_places(node: Node, indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """[..., k] indices of the first k axes of `shape` -> [...] numbers of slices."""
    k = extents(indices)[-1]
    if k > len(shape):
        raise ValueError(f"indices of {k} numbers for shape {list(shape)}")
    sizes = np.array(shape[:k], np.int64)
    steps = np.array([prod(shape[i + 1 : k]) for i in range(k)], np.int64)
    wide = ops.cast(indices, dtype="int64")
    wide = ops.where(ops.less(wide, 0), wide + constant(sizes), wide)
    if not wide.is_traced:
        found = wide.numpy()
        if ((found < 0) | (found >= sizes)).any():
            raise ValueError(f"an index lies outside of shape {list(shape)}")
    return ops.sum(wide * constant(steps), axes=[-1])


@onnx_op("GatherND")
def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Slices by tuples of indices, batch by batch."""
    batch, shape = node.attr("batch_dims", 0), extents(x) if node.attr("batch_dims", 0) else ()
    if batch:
        count = prod(shape[:batch])
        x = ops.reshape(x, shape=[count, *shape[batch:]])
        own = extents(indices)
        grid = np.arange(count).reshape(*shape[:batch], *(1 for _ in own[batch:]))
        grid = np.broadcast_to(grid, (*own[:-1], 1))
        indices = ops.concat([constant(grid, "int64"), indices], axis=-1)
    return ops.gather_nd(x, indices)


# -- writing
def _scatter(node: Node, flat: Tensor, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """flat [M, ...], places [P], updates [P, ...]."""
    if reduction == "add" and flat.dtype not in ("bool", "int8", "uint8", "float16", "bfloat16"):
        return ops.scatter_add(flat, places, updates)
    if reduction == "none":
        return ops.scatter(flat, places, updates)
    return _scatter_on_host(node, flat, places, updates, reduction)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _scatter_on_host(node: Node, flat: Tensor, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """With NumPy, for reductions and types the core has no scatter for."""
    y = np.array(node.host(flat, "data"))
    _UFUNCS[reduction](y, node.host(places, "indices"), node.host(updates, "updates"))
    return to_tensor(y)


@onnx_op("ScatterND")
def scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Slices written at tuples of indices."""
    shape, k = extents(x), extents(indices)[-1]
    places = ops.reshape(_flat_places(node, indices, shape), shape=[-1])
    flat = ops.reshape(x, shape=[prod(shape[:k]), *shape[k:]])
    new = ops.reshape(updates, shape=[prod(extents(places)), *shape[k:]])
    return ops.reshape_like(_scatter(node, flat, places, new, node.attr("reduction", "none")), x)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """One element written for each index along an axis."""
    axis, shape = axis_of(node.attr("axis", 0), x.ndim), extents(x)
    own = extents(indices)
    steps = [prod(shape[a + 1 :]) for a in range(x.ndim)]
    base = np.zeros(own, np.int64)
    for a, grid in enumerate(np.indices(own)):
        base += grid * steps[a] * (a != axis)
    wide = ops.cast(indices, dtype="int64")
    wide = ops.where(ops.less(wide, 0), wide + shape[axis], wide)
    places = ops.reshape(wide * steps[axis] + constant(base), shape=[-1])
    y = _scatter(
        node, ops.reshape(x, shape=[-1]), places, ops.reshape(updates, shape=[-1]), node.attr("reduction", "none")
    )
    return ops.reshape_like(y, x)


@onnx_op("TensorScatter", since=24)
def tensor_scatter(node: Node, cache: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
    """New rows of a cache, each sequence from its own place; 'circular' wraps around."""
    axis = axis_of(node.attr("axis", -2), cache.ndim)
    shape, count = extents(cache), extents(update)[axis]
    first = np.zeros(shape[0], np.int64) if starts is None else node.host(starts, "write indices")
    places = first[:, None] + np.arange(count)
    if node.attr("mode", "linear") == "circular":
        places %= shape[axis]
    cache_front, update_front = _axis_second(cache, axis), _axis_second(update, axis)
    rest = extents(cache_front)[2:]
    flat = ops.reshape(cache_front, shape=[shape[0] * shape[axis], *rest])
    rows = (places + np.arange(shape[0])[:, None] * shape[axis]).reshape(-1)
    new = ops.reshape(update_front, shape=[len(rows), *rest])
    y = ops.reshape(_scatter(node, flat, constant(rows, "int64"), new, "none"), shape=list(extents(cache_front)))
    back = [0, *range(2, axis + 1), 1, *range(axis + 1, cache.ndim)]
    return ops.transpose(y, perm=back)


def _axis_second(x: Tensor, axis: int) -> Tensor:
    return ops.transpose(x, perm=[0, axis, *(a for a in range(1, x.ndim) if a != axis)])


# -- making and finding indices
@onnx_op("OneHot")
def one_hot(node: Node, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """values[1] at each index, values[0] elsewhere; an index beyond the ends gives none."""
    n = node.ints(depth, "depth")[0]
    axis = axis_of(node.attr("axis", -1), indices.ndim + 1)
    shape = list(extents(indices))
    node.limit([*shape, n])
    wide = ops.expand_dims(ops.cast(indices, dtype="int64"), axis=axis)
    wide = ops.where(ops.less(wide, 0), wide + n, wide)
    places = constant(np.arange(n).reshape([n, *(1 for _ in shape[axis:])]), "int64")
    off, on = (ops.reshape(ops.slice(values, starts=[i], ends=[i + 1], axes=[0]), shape=()) for i in (0, 1))
    hit = ops.equal(wide, places)
    return ops.where(hit, on, off)


@onnx_op("TopK")
def topk_1(node: Node, x: Tensor) -> Any:
    """The count is an attribute."""
    return _topk(node, x, node.attr("k"))


@onnx_op("TopK", since=10, compute="float")
def topk(node: Node, x: Tensor, k: Tensor) -> Any:
    """The count is an input."""
    return _topk(node, x, node.ints(k, "k")[0])


def _topk(node: Node, x: Tensor, k: int) -> Any:
    return ops.topk(x, k=k, axis=axis_of(node.attr("axis", -1), x.ndim), largest=bool(node.attr("largest", 1)))


# -- shapes that depend on the data: only node by node
@onnx_op("NonZero")
def non_zero(node: Node, x: Tensor) -> Tensor:
    """Where x is not 0: [axes, count]."""
    return constant(np.array(np.nonzero(node.host(x, "data"))), "int64")


@onnx_op("Compress")
def compress(node: Node, x: Tensor, condition: Tensor) -> Tensor:
    """The slices whose condition is true."""
    chosen = np.flatnonzero(node.host(condition, "condition"))
    if "axis" not in node.attributes:
        return ops.gather(ops.reshape(x, shape=[-1]), constant(chosen, "int64"))
    return ops.gather(x, constant(chosen, "int64"), axis=node.attr("axis"))


@onnx_op("Unique")
def unique(node: Node, x: Tensor) -> Any:
    """Different elements or slices, in order or in order of appearance."""
    found = np.unique(
        node.host(x, "data"), return_index=True, return_inverse=True, return_counts=True, axis=node.attr("axis")
    )
    values, first, inverse, counts = found
    inverse = inverse.reshape(-1)
    if not node.attr("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, axis=node.attr("axis") or 0)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return (to_tensor(values), *(constant(v, "int64") for v in (first, inverse, counts)))


@onnx_op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Columns by index."""
    return ops.gather(x, ops.reshape(indices, shape=[-1]), axis=-1)
