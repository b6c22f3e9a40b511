"""Attention over ragged rows: sequences are padded for the attention alone, to a length that the executor knows.

Dropout counts a weight by its head, its row and its column among all rows, as the native kernels do: the same key drops
the same weights, however much is padded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from framework.xla.lower import Array, Call, Lowering, rule, wide
from framework.xla.rules.ragged import checked, from_padded, longest, to_padded
from framework.xla.rules.random import word_at


@dataclass
class _Attention:
    """One use of attention: offsets of queries and keys (int64), and what of them is seen."""

    lowering: Lowering
    at: Array
    k_at: Array
    lengths: tuple[int, int]  # that queries and keys are padded to
    rows: tuple[int, int]
    heads: int
    scale: float
    causal: bool
    window: int
    p: float
    key: Array | None

    def split(self, x: Array, keys: bool = False) -> Array:
        """[T, D] -> [B, heads, length, D / heads]."""
        padded, _ = to_padded(wide(x), self.k_at if keys else self.at, self.lengths[keys])
        return jnp.swapaxes(padded.reshape(*padded.shape[:2], self.heads, x.shape[1] // self.heads), 1, 2)

    def join(self, x: Array, keys: bool = False) -> Array:
        """What undoes `split`."""
        flat = jnp.swapaxes(x, 1, 2)
        flat = flat.reshape(*flat.shape[:2], x.shape[1] * x.shape[3])
        return from_padded(flat, self.k_at if keys else self.at, self.rows[keys])

    def seen(self) -> Array:
        """Which query sees which key, bool [B, 1, Lq, Lk]."""
        n, m = (a[1:] - a[:-1] for a in (self.at, self.k_at))
        i, j = jnp.arange(self.lengths[0])[None, :, None], jnp.arange(self.lengths[1])[None, None, :]
        there = (i < n[:, None, None]) & (j < m[:, None, None])
        if self.causal:
            there &= j <= i + (m - n)[:, None, None]
        if self.window:
            there &= jnp.abs(j - i - (m - n)[:, None, None]) < self.window
        return there[:, None]

    def dropped(self, weights: Array) -> Array:
        """Dropout of weights, or of their gradients."""
        if self.p == 0 or self.key is None:
            return weights
        t = self.at[:-1, None] + jnp.arange(self.lengths[0])
        s = self.k_at[:-1, None] + jnp.arange(self.lengths[1])
        head = jnp.arange(self.heads)[None, :, None, None]
        place = (head * self.at[-1] + t[:, None, :, None]) * self.k_at[-1] + s[:, None, None, :]
        kept = (word_at(self.key, place) >> np.uint32(8)) >= np.uint32(math.ceil(self.p * 2**24))
        return jnp.where(kept, weights * np.asarray(1 / (1 - self.p), weights.dtype), 0)

    def scores(self, q: Array, k: Array) -> Array:
        """[B, heads, Lq, Lk]."""
        return self.lowering.contraction("bhid,bhjd->bhij", q, k) * np.asarray(self.scale, q.dtype)


def _attention(
    call: Call,
    q: Array,
    k: Array,
    offsets: Array,
    k_offsets: Array | None,
    key: Array | None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
    window: int,
) -> _Attention:
    at = checked(call, offsets, q.shape[0])
    length = longest(call, offsets, q.shape[0])
    k_at, k_length = at, length
    if k_offsets is not None:
        k_at = checked(call, k_offsets, k.shape[0], "k_offsets")
        k_length = longest(call, k_offsets, k.shape[0])
    factor = scale or (q.shape[1] // heads) ** -0.5
    return _Attention(
        call.lowering, at, k_at, (length, k_length), (q.shape[0], k.shape[0]), heads, factor, causal, window, p, key
    )


def _forward(a: _Attention, q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    seen = a.seen()
    scores = jnp.where(seen, a.scores(a.split(q), a.split(k, True)), -jnp.inf)
    top = jnp.max(scores, -1, keepdims=True, initial=-jnp.inf)
    top = jnp.where(jnp.isneginf(top), 0, top)
    parts = jnp.where(seen, jnp.exp(scores - top), 0)
    total = jnp.sum(parts, -1, keepdims=True)
    weights = parts / jnp.where(total == 0, 1, total)
    contract = a.lowering.contraction
    y = contract("bhij,bhjd->bhid", a.dropped(weights), a.split(v, True))
    lse = jnp.log(total) + top
    return a.join(y), from_padded(jnp.swapaxes(lse[..., 0], 1, 2), a.at, a.rows[0])


def _backward(
    a: _Attention, dy: Array, y: Array, lse: Array, q: Array, k: Array, v: Array, dlse: Array | None
) -> tuple[Array, Array, Array]:
    queries, keys, values, grads = a.split(q), a.split(k, True), a.split(v, True), a.split(dy)
    rows = jnp.swapaxes(to_padded(wide(lse), a.at, a.lengths[0])[0], 1, 2)[..., None]
    weights = jnp.where(a.seen(), jnp.exp(a.scores(queries, keys) - rows), 0)
    contract = a.lowering.contraction
    dv = contract("bhij,bhid->bhjd", a.dropped(weights), grads)
    dweights = a.dropped(contract("bhid,bhjd->bhij", grads, values))
    taken = jnp.sum(grads * a.split(y), -1, keepdims=True)
    if dlse is not None:
        taken = taken - jnp.swapaxes(to_padded(wide(dlse), a.at, a.lengths[0])[0], 1, 2)[..., None]
    dscores = weights * (dweights - taken) * np.asarray(a.scale, weights.dtype)
    dq, dk = contract("bhij,bhjd->bhid", dscores, keys), contract("bhij,bhid->bhjd", dscores, queries)
    return a.join(dq), a.join(dk, True), a.join(dv, True)


@rule("ragged_attention")
def _ragged_attention(
    call: Call,
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    k_offsets: Array | None = None,
    key: Array | None = None,
    **attrs: Any,
) -> tuple[Array, Array]:
    return _forward(_attention(call, q, k, offsets, k_offsets, key, **attrs), q, k, v)


@rule("ragged_attention_grad")
def _ragged_attention_grad(
    call: Call,
    dy: Array,
    y: Array,
    lse: Array,
    q: Array,
    k: Array,
    v: Array,
    offsets: Array,
    k_offsets: Array | None = None,
    key: Array | None = None,
    dlse: Array | None = None,
    **attrs: Any,
) -> tuple[Array, Array, Array]:
    attention = _attention(call, q, k, offsets, k_offsets, key, **attrs)
    return _backward(attention, dy, y, lse, q, k, v, dlse)


@rule("ragged_self_attention")
def _ragged_self_attention(
    call: Call,
    qkv: Array,
    offsets: Array,
    key: Array | None = None,
    **attrs: Any,
) -> tuple[Array, Array]:
    q, k, v = jnp.split(qkv, 3, 1)
    return _forward(_attention(call, q, k, offsets, None, key, **attrs), q, k, v)


@rule("ragged_self_attention_grad")
def _ragged_self_attention_grad(
    call: Call,
    dy: Array,
    y: Array,
    lse: Array,
    qkv: Array,
    offsets: Array,
    key: Array | None = None,
    dlse: Array | None = None,
    **attrs: Any,
) -> Array:
    q, k, v = jnp.split(qkv, 3, 1)
    attention = _attention(call, q, k, offsets, None, key, **attrs)
    return jnp.concatenate(_backward(attention, dy, y, lse, q, k, v, dlse), 1)
