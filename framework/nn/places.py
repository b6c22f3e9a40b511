"""Attention that also tells how much each place is looked at.  Letters: T queries, S keys, H heads, E width of a head,
L places."""

from __future__ import annotations

from framework import ops
from framework.tensors import Tensor


def attend_by_place(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offsets: Tensor,
    k_offsets: Tensor,
    *,
    heads: int,
    width: int,
    scale: float,
    length: int,
) -> tuple[Tensor, Tensor]:
    """Attention of each sequence to another one, and the weights, the mean of all heads'.

    A value has its place as one number of L that is 1 behind it, so the kernel's sum holds the weights; no matrix of
    all queries against all keys is made.

    Args:
        q: [T, H E].
        k, v: [S, H E].
        offsets, k_offsets: integer [B + 1], of queries and of keys.
        heads: H.
        width: E.
        scale: of the products of queries and keys.
        length: L; a sequence of more keys is an error.

    Returns:
        y [T, H E], and weights [T, L] of the keys by their place in their sequence, 0 behind its end.
    """
    spot = ops.one_hot(ops.ragged_positions(k_offsets, k), depth=length)
    queries, keys, values = (ops.reshape(x, shape=(0, heads, width)) for x in (q, k, v))
    spots = ops.cast(ops.expand_dims(spot, axis=1) + ops.full(shape=[heads, 1], value=0.0), dtype=v.dtype)
    wide_q, wide_k, wide_v = (
        ops.flatten(x, start=1, end=2)
        for x in (
            ops.pad(queries, pads=[0, 0, 0, 0, 0, length]),
            ops.pad(keys, pads=[0, 0, 0, 0, 0, length]),
            ops.concat([values, spots], axis=2),
        )
    )
    y, _ = ops.ragged_attention(wide_q, wide_k, wide_v, offsets, k_offsets, heads=heads, scale=scale)
    found, weights = ops.split(ops.reshape(y, shape=(0, heads, width + length)), axis=2, sizes=[width, length])
    return ops.flatten(found, start=1, end=2), ops.mean(weights, axes=(1,))
