"""Gather, scatter, look-ups and sorting. An index that is out of range fails the run, as it does natively."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, jnp_type, rule, wide


def _index(call: Call, indices: Array, extent: int, what: str = "indices", *, wrap: bool = True) -> Array:
    """Indices from 0 on, in range."""
    found = indices.astype(jnp.int64)
    low = -extent if wrap else 0
    bad = (found < low) | (found >= extent)
    call.refuse_where(bad, found, f"{what} holds {{}} but must lie in [{low}, {extent - 1}]")
    if wrap:
        found = jnp.where(found < 0, found + extent, found)
    return jnp.clip(found, 0, max(extent - 1, 0)).astype(jnp.int32 if extent < 2**31 else jnp.int64)


@rule("gather")
def _gather(call: Call, x: Array, indices: Array, *, axis: int) -> Array:
    if x.shape[axis] == 0:
        return jnp.zeros(call.shape, x.dtype)
    return jnp.take(x, _index(call, indices, x.shape[axis]), axis, mode="clip")


def _to_front(x: Array, axis: int) -> Array:
    return jnp.moveaxis(x, axis, 0)


def _updates_to_front(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """[..., *indices.shape, ...] -> [n, ...], as many rows as indices."""
    at = axis % x.ndim
    k = indices.ndim
    order = [*range(at, at + k), *range(at), *range(at + k, updates.ndim)]
    moved = jnp.transpose(updates, order)
    return moved.reshape(indices.size, *moved.shape[k:])


@rule("scatter_add")
def _scatter_add(call: Call, x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    found = _index(call, indices, x.shape[axis]).ravel()
    rows = _updates_to_front(x, indices, updates, axis)
    return jnp.moveaxis(_to_front(x, axis).at[found].add(rows.astype(x.dtype)), 0, axis)


def _last(found: Array, extent: int) -> Array:
    """Which of equal indices is the last: only it counts."""
    order = jnp.arange(found.size)
    latest = jnp.full(extent, -1, order.dtype).at[found].max(order)
    return latest[found] == order


@rule("scatter")
def _scatter(call: Call, x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    extent = x.shape[axis]
    found = _index(call, indices, extent).ravel()
    rows = _updates_to_front(x, indices, updates, axis)
    places = jnp.where(_last(found, extent), found, extent)  # the others fall out
    return jnp.moveaxis(_to_front(x, axis).at[places].set(rows, mode="drop"), 0, axis)


@rule("scatter_pick")
def _scatter_pick(call: Call, x: Array, indices: Array, *, axis: int) -> Array:
    extent, at = x.shape[axis], axis % x.ndim
    found = _index(call, indices, extent)
    counts = _last(found.ravel(), extent).reshape(indices.shape)
    taken = jnp.take(x, found, at, mode="clip")
    shape = [1] * at + list(indices.shape) + [1] * (x.ndim - at - 1)
    return jnp.where(counts.reshape(shape), taken, jnp.zeros_like(taken))


def _tuples(call: Call, x: Array, indices: Array) -> Array:
    """Tuples of indices as row numbers of x with its first axes joined; [...]."""
    width = indices.shape[-1]
    at = jnp.zeros(indices.shape[:-1], jnp.int64)
    for k in range(width):
        found = _index(call, indices[..., k], x.shape[k], f"indices[..., {k}]")
        at = at * x.shape[k] + found.astype(jnp.int64)
    return at


@rule("gather_nd")
def _gather_nd(call: Call, x: Array, indices: Array) -> Array:
    rows = x.reshape(-1, *x.shape[indices.shape[-1] :])
    return (
        jnp.take(rows, _tuples(call, x, indices), 0, mode="clip") if rows.shape[0] else jnp.zeros(call.shape, x.dtype)
    )


@rule("scatter_nd_add")
def _scatter_nd_add(call: Call, x: Array, indices: Array, updates: Array) -> Array:
    rest = x.shape[indices.shape[-1] :]
    places = _tuples(call, x, indices).ravel()
    return x.reshape(-1, *rest).at[places].add(updates.reshape(-1, *rest)).reshape(x.shape)


@rule("take_along_axis")
def _take_along_axis(call: Call, x: Array, indices: Array, *, axis: int) -> Array:
    if not indices.size:
        return jnp.zeros(call.shape, x.dtype)
    return jnp.take_along_axis(x, _index(call, indices, x.shape[axis]), axis, mode="clip")


@rule("put_along_axis_add")
def _put_along_axis_add(call: Call, x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    if not indices.size:
        return x
    found = _index(call, indices, x.shape[axis])
    grid = list(jnp.meshgrid(*(jnp.arange(n) for n in indices.shape), indexing="ij", sparse=True))
    grid[axis] = found
    return x.at[tuple(grid)].add(updates)


@rule("embedding")
def _embedding(call: Call, weight: Array, ids: Array, *, padding_idx: int) -> Array:
    found = _index(call, ids, weight.shape[0], "ids", wrap=False)
    rows = jnp.take(weight, found, 0, mode="clip")
    return rows if padding_idx < 0 else jnp.where((found == padding_idx)[..., None], 0, rows).astype(rows.dtype)


@rule("quantized_embedding")
def _quantized_embedding(call: Call, weight: Array, scale: Array, ids: Array, *, padding_idx: int) -> Array:
    found = _index(call, ids, weight.shape[0], "ids", wrap=False)
    rows = jnp.take(weight, found, 0, mode="clip").astype(jnp.float32) * jnp.take(scale, found, mode="clip")[..., None]
    return rows if padding_idx < 0 else jnp.where((found == padding_idx)[..., None], 0, rows)


@rule("embedding_grad")
def _embedding_grad(call: Call, dy: Array, ids: Array, like: Array, *, padding_idx: int) -> Array:
    found = _index(call, ids, like.shape[0], "ids", wrap=False).ravel()
    rows = wide(dy).reshape(-1, dy.shape[-1])
    if padding_idx >= 0:
        rows = jnp.where((found == padding_idx)[:, None], 0, rows)
    return jnp.zeros(like.shape, rows.dtype).at[found].add(rows)


@rule("embedding_grad_rows")
def _embedding_grad_rows(call: Call, dy: Array, ids: Array, like: Array, *, padding_idx: int) -> tuple[Array, Array]:
    found = _index(call, ids, like.shape[0], "ids", wrap=False).ravel()
    rows = wide(dy).reshape(-1, dy.shape[-1])
    n = found.size
    order = jnp.arange(n)
    first = jnp.full(like.shape[0], n, order.dtype).at[found].min(order)[found]  # where each id stands first
    counts = (first == order) & (found != padding_idx)
    values = jnp.zeros_like(rows).at[first].add(rows)
    return jnp.where(counts, found, -1), jnp.where(counts[:, None], values, 0)


@rule("one_hot")
def _one_hot(call: Call, ids: Array, *, depth: int, dtype: str) -> Array:
    return jax.nn.one_hot(_index(call, ids, depth, "ids", wrap=False), depth, dtype=jnp_type(dtype))


def ascending(x: Array) -> Array:
    """Whole numbers in the order of the elements: a NaN above all, -0 and 0 equal."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x.astype(jnp.int32) if x.dtype == jnp.bool_ else x
    x = jnp.where(x == 0, 0, x)
    return jnp.where(jnp.isnan(x), jnp.inf, x), jnp.isnan(x)


def sorted_places(x: Array, axis: int, descending: bool) -> Array:
    """Where the elements in order stand; equal ones keep their order, a NaN counts as larger than any number."""
    keys = ascending(x)
    parts = list(keys) if isinstance(keys, tuple) else [keys]
    if descending:
        parts = [~k if k.dtype == jnp.bool_ or jnp.issubdtype(k.dtype, jnp.integer) else -k for k in parts]
    parts = [p.astype(jnp.int32) if p.dtype == jnp.bool_ else p for p in parts]
    if len(parts) == 2:
        parts = [parts[1], parts[0]]  # whether it is a NaN first
    places = lax.broadcasted_iota(jnp.int64, x.shape, axis % x.ndim)
    *_, found = lax.sort([*parts, places], dimension=axis % x.ndim, is_stable=True, num_keys=len(parts))
    return found


@rule("sort")
def _sort(call: Call, x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    places = sorted_places(x, axis, descending)
    return jnp.take_along_axis(x, places, axis), places


@rule("topk")
def _topk(call: Call, x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    places = lax.slice_in_dim(sorted_places(x, axis, largest), 0, k, axis=axis % x.ndim)
    return jnp.take_along_axis(x, places, axis), places


@rule("nonzero_sized")
def _nonzero_sized(call: Call, x: Array, *, size: int, fill: int) -> Array:
    found = jnp.nonzero(x.ravel() != 0, size=size, fill_value=x.size)[0]
    rows = jnp.stack(jnp.unravel_index(jnp.minimum(found, max(x.size - 1, 0)), x.shape or (1,)), -1)
    rows = rows[:, : x.ndim].astype(jnp.int64)
    return jnp.where((found < x.size)[:, None], rows, fill)


@rule("unique_sized")
def _unique_sized(call: Call, x: Array, *, size: int, fill: tuple[float, ...]) -> tuple[Array, Array, Array]:
    flat = x.ravel()
    if not flat.size:
        value = jnp.asarray(fill[0] if fill else 0, x.dtype)
        return jnp.full(size, value), jnp.zeros(x.shape, jnp.int64), jnp.zeros(size, jnp.int64)
    flat = jnp.where(flat == 0, jnp.zeros_like(flat), flat)
    places = sorted_places(flat, 0, False)
    ordered = flat[places]
    same = (ordered[1:] == ordered[:-1]) | ((ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1]))
    number = jnp.concatenate([jnp.zeros(1, jnp.int64), jnp.cumsum(~same)])  # which value each of them is
    kept = jnp.where(number < size, number, size)
    rest = jnp.asarray(fill[0], x.dtype) if fill else ordered[0]
    values = jnp.full(size, rest).at[kept].set(ordered, mode="drop")
    counts = jnp.zeros(size, jnp.int64).at[kept].add(1, mode="drop")
    inverse = jnp.zeros(flat.size, jnp.int64).at[places].set(jnp.minimum(number, size)).reshape(x.shape)
    return values, inverse, counts
