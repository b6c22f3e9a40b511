"""What the dense attention operators stand for: one matrix of all queries against all keys of a sequence.

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
    expand_dims,
    extent,
    greater,
    greater_equal,
    less_equal,
    logical_and,
    logsumexp,
    matmul,
    not_equal,
    positions,
    reshape,
    transpose,
    where,
)
from framework.ops.internal import sum_to
from framework.tensors import Tensor


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[B, T, D] -> [B, heads, T, D / heads]."""
    return transpose(reshape(x, shape=(0, 0, heads, -1)), perm=(0, 2, 1, 3))


def _from_heads(x: Tensor) -> Tensor:
    """[B, heads, T, D / heads] -> [B, T, D]."""
    return reshape(transpose(x, perm=(0, 2, 1, 3)), shape=(0, 0, -1))


def _rows(x: Tensor) -> Tensor:
    """[B, T, heads] -> [B, heads, T, 1]."""
    return expand_dims(transpose(x, perm=(0, 2, 1)), axis=-1)


def _to_end(x: Tensor, axis: int) -> Tensor:
    """How far each place of an axis stands from its end, from 1: int64."""
    return extent(x, axis=axis) - positions(x, axis=axis)


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, heads: int, scale: float, causal: bool) -> Tensor:
    """[B, heads, T, S], HIDDEN where the key is out of sight."""
    s = matmul(_by_head(q, heads), _by_head(k, heads), transpose_b=True) * scale_of(q, heads, scale)
    if mask is not None and mask.dtype == "bool":
        s = where(mask, s, HIDDEN)
    elif mask is not None:
        s = s + mask
        s = where(less_equal(s, HIDDEN), HIDDEN, s)
    if causal:
        reached = greater_equal(_to_end(s, 3), expand_dims(_to_end(s, 2), axis=1))  # [T, S]
        s = where(reached, s, HIDDEN)
    return s


def _seen(s: Tensor) -> Tensor:
    return not_equal(s, HIDDEN)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    key: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
) -> tuple[Tensor, Tensor]:
    """Softmax over each query's visible keys.  q, y: [B, T, D]; k, v: [B, S, D]; lse: [B, T, heads]."""
    s = _scores(q, k, mask, heads, scale, causal)
    y = _from_heads(matmul(dropped(softmax_of_seen(s, _seen(s)), key, p), _by_head(v, heads)))
    sighted = functions.any(_seen(s), axes=(-1,))
    lse = where(sighted, logsumexp(s, axes=(-1,)), -float("inf"))
    return y, transpose(lse, perm=(0, 2, 1))


def _score_gradients(
    dy: Tensor,
    y: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    key: Tensor | None,
    dlse: Tensor | None,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
) -> tuple[Tensor, Tensor]:
    """The weights again from q, k and lse, and the gradients of the scores; both [B, heads, T, S]."""
    s = _scores(q, k, mask, heads, scale, causal)
    seen = logical_and(_seen(s), greater(_rows(lse), HIDDEN))
    weights = weights_again(s, seen, _rows(lse))
    dlses = None if dlse is None else _rows(dlse)
    ds = score_gradients(weights, _by_head(dy, heads), _by_head(y, heads), _by_head(v, heads), dlses, key, p)
    return weights, ds


def scaled_dot_product_attention_grad(
    dy: Tensor,
    y: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    key: Tensor | None = None,
    dlse: Tensor | None = None,
    *,
    heads: int,
    scale: float,
    causal: bool,
    p: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by q, k and v.  All shapes as in scaled_dot_product_attention."""
    weights, ds = _score_gradients(dy, y, lse, q, k, v, mask, key, dlse, heads, scale, causal, p)
    dys, queries, keys = (_by_head(x, heads) for x in (dy, q, k))
    grads = input_gradients(ds, weights, dys, queries, keys, scale_of(q, heads, scale), key, p)
    dq, dk, dv = (_from_heads(g) for g in grads)
    return dq, dk, dv


def mask_gradient(  # type: ignore[no-untyped-def]
    dy, y, lse, q, k, v, mask, key, heads, scale, causal, p, dlse=None
):
    """The gradient of a mask that is added to the scores, such as a learned bias: [B, heads, T, S], summed to it.

    It is as large as all weights, so unlike those of q, k and v it holds them in memory.
    """
    _, ds = _score_gradients(dy, y, lse, q, k, v, mask, key, dlse, heads, scale, causal, p)
    return sum_to(ds, mask)
