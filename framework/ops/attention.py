"""What the ragged attention operators stand for: one matrix of all queries against all keys, with a mask.

Written with other operators, so that it has gradients to any order and exports; it costs memory of T x S a head, which
is what the kernels avoid. The dropout's words are numbered as here.
"""

from __future__ import annotations

from framework.ops import functions
from framework.ops.attention_math import (
    HIDDEN,
    dropped,
    input_gradients,
    scale_of,
    score_gradients,
    softmax_of_seen,
    weights_again,
)
from framework.ops.functions import (
    cast,
    concat,
    equal,
    expand_dims,
    gather,
    greater_equal,
    logical_and,
    logsumexp,
    matmul,
    ragged_positions,
    ragged_segments,
    reshape,
    transpose,
    where,
)
from framework.tensors import Tensor


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[T, D] -> [heads, T, D / heads]."""
    return transpose(reshape(x, shape=(0, heads, -1)), perm=(1, 0, 2))


def _from_heads(x: Tensor) -> Tensor:
    """[heads, T, D / heads] -> [T, D]."""
    return reshape(transpose(x, perm=(1, 0, 2)), shape=(0, -1))


def _numbers(offsets: Tensor, like: Tensor, placed: bool) -> tuple[Tensor, Tensor | None]:
    """For each row of `like` the number of its sequence and, if `placed`, how far it stands from its end; int64 [T]."""
    segments = ragged_segments(offsets, like)
    if not placed:
        return segments, None
    lengths = cast(gather(offsets[1:] - offsets[:-1], segments), dtype="int64")
    return segments, lengths - ragged_positions(offsets, like)


def _visible(q: Tensor, k: Tensor, offsets: Tensor, k_offsets: Tensor | None, causal: bool, window: int) -> Tensor:
    """Which query sees which key: bool [T, S]."""
    placed = causal or window > 0
    segments, to_end = _numbers(offsets, q, placed)
    key_segments, key_to_end = _numbers(offsets if k_offsets is None else k_offsets, k, placed)
    seen = equal(_column(segments), _row(key_segments))
    if to_end is None or key_to_end is None:
        return seen
    if causal:
        seen = logical_and(seen, greater_equal(_row(key_to_end), _column(to_end)))
    if window:
        for near, far in ((_row(key_to_end), _column(to_end)), (_column(to_end), _row(key_to_end))):
            seen = logical_and(seen, greater_equal(near, far - (window - 1)))
    return seen


def _row(x: Tensor) -> Tensor:
    return expand_dims(x, axis=0)


def _column(x: Tensor) -> Tensor:
    return expand_dims(x, axis=1)


def _scores(q: Tensor, k: Tensor, heads: int, scale: float) -> Tensor:
    """[heads, T, S]."""
    products = matmul(_by_head(q, heads), _by_head(k, heads), transpose_b=True)
    return products * scale_of(q, heads, scale)


def ragged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offsets: Tensor,
    k_offsets: Tensor | None = None,
    key: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Softmax over each query's own keys; the others are masked.  q, y: [T, D]; k, v: [S, D]; lse: [T, heads]."""
    seen = _visible(q, k, offsets, k_offsets, causal, window)
    scores = where(seen, _scores(q, k, heads, scale), HIDDEN)
    y = _from_heads(matmul(dropped(softmax_of_seen(scores, seen), key, p), _by_head(v, heads)))
    lse = transpose(logsumexp(scores, axes=(-1,)))
    sighted = functions.any(seen, axes=(1,), keepdims=True)
    return y, where(sighted, lse, -float("inf"))


def ragged_attention_grad(
    dy: Tensor,
    y: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offsets: Tensor,
    k_offsets: Tensor | None = None,
    key: Tensor | None = None,
    dlse: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights again from q, k and lse, then the gradients of scores.  All shapes as in ragged_attention."""

    def by_row(x: Tensor) -> Tensor:  # [T, heads] -> [heads, T, 1]
        return expand_dims(transpose(x), axis=-1)

    seen = _visible(q, k, offsets, k_offsets, causal, window)
    weights = weights_again(_scores(q, k, heads, scale), seen, by_row(lse))
    dys, ys, queries, keys, values = (_by_head(x, heads) for x in (dy, y, q, k, v))
    ds = score_gradients(weights, dys, ys, values, None if dlse is None else by_row(dlse), key, p)
    grads = input_gradients(ds, weights, dys, queries, keys, scale_of(q, heads, scale), key, p)
    dq, dk, dv = (_from_heads(g) for g in grads)
    return dq, dk, dv


def _parts(qkv: Tensor) -> list[Tensor]:
    """[T, 3 D] -> q, k, v: [T, D] each."""
    three = reshape(qkv, shape=(0, 3, -1))
    return [three[:, i] for i in range(3)]


def ragged_self_attention(
    qkv: Tensor,
    offsets: Tensor,
    key: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
    window: int,
) -> tuple[Tensor, Tensor]:
    """ragged_attention of the three parts of qkv.  qkv: [T, 3 D]; y: [T, D]; lse: [T, heads]."""
    q, k, v = _parts(qkv)
    return ragged_attention(q, k, v, offsets, None, key, heads=heads, scale=scale, causal=causal, p=p, window=window)


def ragged_self_attention_grad(
    dy: Tensor,
    y: Tensor,
    lse: Tensor,
    qkv: Tensor,
    offsets: Tensor,
    key: Tensor | None = None,
    dlse: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
    window: int,
) -> Tensor:
    """The gradients of the three parts side by side.  dy, y: [T, D]; qkv, dqkv: [T, 3 D]; lse: [T, heads]."""
    q, k, v = _parts(qkv)
    grads = ragged_attention_grad(
        dy, y, lse, q, k, v, offsets, None, key, dlse, heads=heads, scale=scale, causal=causal, p=p, window=window
    )
    return concat(list(grads), axis=1)
