"""What the ragged attention operators stand for: one matrix of all queries against all keys, with a mask.

Written with other operators, so that it has gradients to any order and exports; it costs memory of T x S a head, which
is what the kernels avoid. The dropout's words are numbered as here.
"""

from __future__ import annotations

from framework.ops.dispatch import call_by_name
from framework.tensor import Tensor

_HIDDEN = -1e30  # the score of a key out of sight: its exponential is 0 in any type


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[T, D] -> [heads, T, D / heads]."""
    return call_by_name("transpose", [call_by_name("reshape", [x], shape=(0, heads, -1))], perm=(1, 0, 2))


def _from_heads(x: Tensor) -> Tensor:
    """[heads, T, D / heads] -> [T, D]."""
    return call_by_name("reshape", [call_by_name("transpose", [x], perm=(1, 0, 2))], shape=(0, -1))


def _numbers(offsets: Tensor, like: Tensor, causal: bool) -> tuple[Tensor, Tensor | None]:
    """For each row of `like` the number of its sequence and, if causal, how far it stands from its end; int64 [T]."""
    segments = call_by_name("ragged_segments", [offsets, like])
    if not causal:
        return segments, None
    ends = call_by_name("slice", [offsets], starts=(1,), ends=(2**62,))
    begins = call_by_name("slice", [offsets], starts=(0,), ends=(-1,))
    lengths = call_by_name("cast", [call_by_name("gather", [ends - begins, segments])], dtype="int64")
    return segments, lengths - call_by_name("ragged_positions", [offsets, like])


def _visible(q: Tensor, k: Tensor, offsets: Tensor, k_offsets: Tensor | None, causal: bool) -> Tensor:
    """Which query sees which key: bool [T, S]."""
    segments, to_end = _numbers(offsets, q, causal)
    key_segments, key_to_end = _numbers(offsets if k_offsets is None else k_offsets, k, causal)
    seen = call_by_name("equal", [_column(segments), _row(key_segments)])
    if to_end is None or key_to_end is None:
        return seen
    return call_by_name("logical_and", [seen, call_by_name("greater_equal", [_row(key_to_end), _column(to_end)])])


def _row(x: Tensor) -> Tensor:
    return call_by_name("expand_dims", [x], axis=0)


def _column(x: Tensor) -> Tensor:
    return call_by_name("expand_dims", [x], axis=1)


def _scale(q: Tensor, heads: int, scale: float) -> float:
    return scale or (q.shape[-1] // heads) ** -0.5


def _scores(q: Tensor, k: Tensor, heads: int, scale: float) -> Tensor:
    """[heads, T, S]."""
    products = call_by_name("matmul", [_by_head(q, heads), _by_head(k, heads)], transpose_b=True)
    return products * _scale(q, heads, scale)


def _dropped(x: Tensor, key: Tensor | None, p: float) -> Tensor:
    return call_by_name("dropout", [x, key], p=p) if p > 0 else x


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
) -> tuple[Tensor, Tensor]:
    """Softmax over each query's own keys; the others are masked.  q, y: [T, D]; k, v: [S, D]; lse: [T, heads]."""
    seen = _visible(q, k, offsets, k_offsets, causal)
    scores = call_by_name("where", [seen, _scores(q, k, heads, scale), _HIDDEN])
    weights = call_by_name("softmax", [scores], axis=-1) * call_by_name("cast", [seen], dtype=q.dtype)
    y = _from_heads(call_by_name("matmul", [_dropped(weights, key, p), _by_head(v, heads)]))
    lse = call_by_name("transpose", [call_by_name("logsumexp", [scores], axes=(-1,))])
    sighted = call_by_name("any", [seen], axes=(1,), keepdims=True)
    return y, call_by_name("where", [sighted, lse, -float("inf")])


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
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights again from q, k and lse, then the gradients of scores.  All shapes as in ragged_attention."""

    def by_row(x: Tensor) -> Tensor:  # [T, heads] -> [heads, T, 1]
        return call_by_name("expand_dims", [call_by_name("transpose", [x])], axis=-1)

    seen = _visible(q, k, offsets, k_offsets, causal)
    weights = call_by_name("exp", [call_by_name("where", [seen, _scores(q, k, heads, scale) - by_row(lse), _HIDDEN])])
    dys, vs = _by_head(dy, heads), _by_head(v, heads)
    dv = call_by_name("matmul", [_dropped(weights, key, p), dys], transpose_a=True)
    dweights = _dropped(call_by_name("matmul", [dys, vs], transpose_b=True), key, p)
    subtracted = call_by_name("sum", [dys * _by_head(y, heads)], axes=(-1,), keepdims=True)
    if dlse is not None:
        subtracted = subtracted - by_row(dlse)
    dscores = weights * (dweights - subtracted) * _scale(q, heads, scale)
    dq = call_by_name("matmul", [dscores, _by_head(k, heads)])
    dk = call_by_name("matmul", [dscores, _by_head(q, heads)], transpose_a=True)
    return _from_heads(dq), _from_heads(dk), _from_heads(dv)


def _parts(qkv: Tensor) -> list[Tensor]:
    """[T, 3 D] -> q, k, v: [T, D] each."""
    three = call_by_name("reshape", [qkv], shape=(0, 3, -1))
    slices = [call_by_name("slice", [three], starts=(i,), ends=(i + 1,), axes=(1,)) for i in range(3)]
    return [call_by_name("squeeze", [part], axis=1) for part in slices]


def ragged_self_attention(
    qkv: Tensor, offsets: Tensor, key: Tensor | None = None, *, heads: int, scale: float, causal: bool, p: float
) -> tuple[Tensor, Tensor]:
    """ragged_attention of the three parts of qkv.  qkv: [T, 3 D]; y: [T, D]; lse: [T, heads]."""
    q, k, v = _parts(qkv)
    return ragged_attention(q, k, v, offsets, None, key, heads=heads, scale=scale, causal=causal, p=p)


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
) -> Tensor:
    """The gradients of the three parts side by side.  dy, y: [T, D]; qkv, dqkv: [T, 3 D]; lse: [T, heads]."""
    q, k, v = _parts(qkv)
    grads = ragged_attention_grad(
        dy, y, lse, q, k, v, offsets, None, key, dlse, heads=heads, scale=scale, causal=causal, p=p
    )
    return call_by_name("concat", list(grads), axis=1)
