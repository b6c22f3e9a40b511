"""What the dense attention operators stand for: one matrix of all queries against all keys of a sequence.

Written with other operators, so that it has gradients to any order and exports; it costs memory of T x S a head, which
is what the kernels avoid. The dropout's words are numbered as here.
"""

from __future__ import annotations

from framework.ops.dispatch import call_by_name
from framework.tensor import Tensor

_HIDDEN = -1e30  # the score of a key out of sight, and of one below it: its exponential is 0 in any type


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[B, T, D] -> [B, heads, T, D / heads]."""
    return call_by_name("transpose", [call_by_name("reshape", [x], shape=(0, 0, heads, -1))], perm=(0, 2, 1, 3))


def _from_heads(x: Tensor) -> Tensor:
    """[B, heads, T, D / heads] -> [B, T, D]."""
    return call_by_name("reshape", [call_by_name("transpose", [x], perm=(0, 2, 1, 3))], shape=(0, 0, -1))


def _rows(x: Tensor) -> Tensor:
    """[B, T, heads] -> [B, heads, T, 1]."""
    return call_by_name("expand_dims", [call_by_name("transpose", [x], perm=(0, 2, 1))], axis=-1)


def _scale(q: Tensor, heads: int, scale: float) -> float:
    return scale or (q.shape[-1] // heads) ** -0.5


def _to_end(ones: Tensor, axis: int) -> Tensor:
    """How far each row or column of [B, heads, T, S] stands from the end of its axis, from 1, with one of the other."""
    line = call_by_name("slice", [ones], starts=(0, 0, 0), ends=(1, 1, 1), axes=(0, 1, 5 - axis))
    return call_by_name("cumsum", [line], axis=axis, reverse=True)


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, heads: int, scale: float, causal: bool) -> Tensor:
    """[B, heads, T, S], _HIDDEN where the key is out of sight."""
    s = call_by_name("matmul", [_by_head(q, heads), _by_head(k, heads)], transpose_b=True) * _scale(q, heads, scale)
    if mask is not None and mask.dtype == "bool":
        s = call_by_name("where", [mask, s, _HIDDEN])
    elif mask is not None:
        s = s + mask
        s = call_by_name("where", [call_by_name("less_equal", [s, _HIDDEN]), _HIDDEN, s])
    if causal:
        ones = call_by_name("full_like", [s], value=1.0)
        s = call_by_name("where", [call_by_name("greater_equal", [_to_end(ones, 3), _to_end(ones, 2)]), s, _HIDDEN])
    return s


def _weights(s: Tensor) -> Tensor:
    """Softmax of scores; 0 in rows that see nothing."""
    return call_by_name("softmax", [s], axis=-1) * call_by_name("cast", [_seen(s)], dtype=s.dtype)


def _seen(s: Tensor) -> Tensor:
    return call_by_name("not_equal", [s, _HIDDEN])


def _dropped(x: Tensor, key: Tensor | None, p: float) -> Tensor:
    return call_by_name("dropout", [x, key], p=p) if p > 0 else x


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
    y = _from_heads(call_by_name("matmul", [_dropped(_weights(s), key, p), _by_head(v, heads)]))
    sighted = call_by_name("any", [_seen(s)], axes=(-1,))
    lse = call_by_name("where", [sighted, call_by_name("logsumexp", [s], axes=(-1,)), -float("inf")])
    return y, call_by_name("transpose", [lse], perm=(0, 2, 1))


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
    s, dys = _scores(q, k, mask, heads, scale, causal), _by_head(dy, heads)
    seen = call_by_name("logical_and", [_seen(s), call_by_name("greater", [_rows(lse), _HIDDEN])])
    weights = call_by_name("exp", [call_by_name("where", [seen, s - _rows(lse), _HIDDEN])])
    dweights = _dropped(call_by_name("matmul", [dys, _by_head(v, heads)], transpose_b=True), key, p)
    subtracted = call_by_name("sum", [dys * _by_head(y, heads)], axes=(-1,), keepdims=True)
    if dlse is not None:
        subtracted = subtracted - _rows(dlse)
    return weights, weights * (dweights - subtracted)


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
    ds = ds * _scale(q, heads, scale)
    dq = call_by_name("matmul", [ds, _by_head(k, heads)])
    dk = call_by_name("matmul", [ds, _by_head(q, heads)], transpose_a=True)
    dv = call_by_name("matmul", [_dropped(weights, key, p), _by_head(dy, heads)], transpose_a=True)
    return _from_heads(dq), _from_heads(dk), _from_heads(dv)


def mask_gradient(  # type: ignore[no-untyped-def]
    dy, y, lse, q, k, v, mask, key, heads, scale, causal, p, dlse=None
):
    """The gradient of a mask that is added to the scores, such as a learned bias: [B, heads, T, S], summed to it.

    It is as large as all weights, so unlike those of q, k and v it holds them in memory.
    """
    _, ds = _score_gradients(dy, y, lse, q, k, v, mask, key, dlse, heads, scale, causal, p)
    return call_by_name("sum_to", [ds, mask])
