"""Generation: attention over pages, whose rows are gathered, and products by rows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from framework.xla.lower import Array, Call, rule, wide
from framework.xla.rules.ragged import checked, from_padded, longest, segments, to_padded


def _sequences(call: Call, offsets: Array, tables: Array, lengths: Array, rows: int, pages: int, page: int) -> Array:
    """Offsets as int64; the run fails for tables and lengths beyond the cache."""
    span = tables.shape[1] * page
    call.refuse_where((tables < 0) | (tables >= pages), tables, f"tables hold {{}} but there are {pages} pages")
    bad = (lengths < 0) | (lengths > span)
    call.refuse_where(bad, lengths, f"lengths hold {{}} but a sequence's pages have {span} rows")
    return checked(call, offsets, rows)


@rule("page_rows")
def _page_rows(
    call: Call, offsets: Array, tables: Array, lengths: Array, like: Array, keys: Array, *, page: int
) -> tuple[Array, Array]:
    rows = like.shape[0]
    at = _sequences(call, offsets, tables, lengths, rows, keys.shape[0] // page, page)
    new = at[1:] - at[:-1]
    call.refuse_where(new > lengths, lengths, "lengths hold {} but a sequence has more new rows; it counts them too")
    if not rows or not tables.shape[1]:
        return jnp.zeros(rows, jnp.int64), jnp.zeros(rows, jnp.int64)
    of = segments(at, rows)
    places = jnp.arange(rows) - at[1:][of] + lengths.astype(jnp.int64)[of]
    number = jnp.clip(places // page, 0, tables.shape[1] - 1)
    return tables.astype(jnp.int64)[of, number] * page + places % page, places


@rule("paged_attention")
def _paged_attention(
    call: Call,
    q: Array,
    keys: Array,
    values: Array,
    offsets: Array,
    tables: Array,
    lengths: Array,
    near_keys: Array | None = None,
    near_values: Array | None = None,
    *,
    heads: int,
    page: int,
    scale: float,
    window: int,
) -> Array:
    at = _sequences(call, offsets, tables, lengths, q.shape[0], keys.shape[0] // page, page)
    span, long = tables.shape[1] * page, lengths.astype(jnp.int64)
    padded, _ = to_padded(wide(q), at, longest(call, offsets, q.shape[0]))  # [B, L, D]
    size = q.shape[1] // heads
    groups = keys.shape[1] // size
    rows = (tables[:, :, None] * page + jnp.arange(page)).reshape(tables.shape[0], span)
    rows = jnp.clip(rows, 0, max(keys.shape[0] - 1, 0))
    there = (jnp.arange(span)[None, :] < long[:, None])[:, :, None, None]  # rubbish behind a sequence may be NaN
    k, v = (jnp.where(there, wide(x)[rows].reshape(*rows.shape, groups, size), 0) for x in (keys, values))
    by_head = padded.reshape(*padded.shape[:2], groups, heads // groups, size)
    first = long - (at[1:] - at[:-1])
    place = first[:, None] + jnp.arange(padded.shape[1])
    behind = place[:, :, None] - jnp.arange(span)[None, None, :]
    scores = call.lowering.contraction("bighd,bjgd->bghij", by_head, k)
    far = 0 if near_keys is None else near_keys.shape[0] // 2
    near = far - jnp.clip(behind, 0, far)  # [B, L, span]
    if near_keys is not None:
        scores = scores + call.lowering.contraction("bighd,bijd->bghij", by_head, wide(near_keys)[near])
    scores = scores * np.asarray(scale or size**-0.5, k.dtype)
    seen = ((behind >= 0) & ((behind < window) if window else True))[:, None, None]
    top = jnp.max(jnp.where(seen, scores, -jnp.inf), -1, keepdims=True, initial=-jnp.inf)
    parts = jnp.where(seen, jnp.exp(scores - jnp.where(jnp.isneginf(top), 0, top)), 0)
    total = jnp.sum(parts, -1, keepdims=True)
    weights = parts / jnp.where(total == 0, 1, total)
    y = call.lowering.contraction("bghij,bjgd->bighd", weights, v)
    if near_values is not None:
        y = y + call.lowering.contraction("bghij,bijd->bighd", weights, wide(near_values)[near])
    return from_padded(y.reshape(padded.shape), at, q.shape[0])


@rule("paged_weights")
def _paged_weights(
    call: Call, q: Array, keys: Array, offsets: Array, tables: Array, lengths: Array, *, page: int, scale: float
) -> Array:
    at = _sequences(call, offsets, tables, lengths, q.shape[0], keys.shape[0] // page, page)
    span, long = tables.shape[1] * page, lengths.astype(jnp.int64)
    if not q.shape[0] or not span:
        return jnp.zeros((q.shape[0], span), wide(q).dtype)
    of = segments(at, q.shape[0])
    rows = (tables[:, :, None] * page + jnp.arange(page)).reshape(tables.shape[0], span)
    rows = jnp.clip(rows, 0, max(keys.shape[0] - 1, 0))
    k = jnp.where((jnp.arange(span)[None, :] < long[:, None])[:, :, None], wide(keys)[rows], 0)[of]
    scores = call.lowering.contraction("td,tjd->tj", wide(q), k) * np.asarray(scale or q.shape[1] ** -0.5, k.dtype)
    place = jnp.arange(q.shape[0]) - at[1:][of] + long[of]
    seen = jnp.arange(span)[None, :] <= place[:, None]
    top = jnp.max(jnp.where(seen, scores, -jnp.inf), -1, keepdims=True)
    parts = jnp.where(seen, jnp.exp(scores - jnp.where(jnp.isneginf(top), 0, top)), 0)
    total = jnp.sum(parts, -1, keepdims=True)
    return parts / jnp.where(total == 0, 1, total)


@rule("linear_by_rows")
def _linear_by_rows(
    call: Call, x: Array, weight: Array, bias: Array | None = None, scale: Array | None = None
) -> Array:
    if scale is not None:
        weight = weight.astype(jnp.float32) * jnp.repeat(scale, weight.shape[1] // scale.shape[1], axis=1)
    y = call.lowering.contraction("mc,kc->mk", x, weight)
    return y if bias is None else y + bias
