"""What dense and ragged attention stand for once their heads are apart: scores to results, and the way back.

Both have [..., heads, T, D / heads] for queries, [..., heads, S, D / heads] for keys and values, and scores
[..., heads, T, S], which are `HIDDEN` where a key is out of sight.
"""

from __future__ import annotations

from framework.ops import functions
from framework.ops.functions import cast, dropout, exp, matmul, softmax, where
from framework.tensors import Tensor

HIDDEN = -1e30  # the score of a key out of sight, and of one below it: its exponential is 0 in any type


def scale_of(q: Tensor, heads: int, scale: float) -> float:
    """The factor of the products: `scale`, or 1 / sqrt(D / heads) where that is 0."""
    return scale or (q.shape[-1] // heads) ** -0.5


def dropped(x: Tensor, key: Tensor | None, p: float) -> Tensor:
    """Dropout of weights, or of their gradients."""
    return x if key is None or p == 0 else dropout(x, key, p=p)


def softmax_of_seen(scores: Tensor, seen: Tensor) -> Tensor:
    """Softmax of scores; 0 in rows that see nothing."""
    return softmax(scores, axis=-1) * cast(seen, dtype=scores.dtype)


def weights_again(scores: Tensor, seen: Tensor, lse: Tensor) -> Tensor:
    """The weights from scores and lse [..., heads, T, 1]."""
    return exp(where(seen, scores - lse, HIDDEN))


def score_gradients(
    weights: Tensor, dy: Tensor, y: Tensor, v: Tensor, dlse: Tensor | None, key: Tensor | None, p: float
) -> Tensor:
    """The gradient of the scores.  dy, y: [..., heads, T, D / heads]; dlse: [..., heads, T, 1]."""
    dweights = dropped(matmul(dy, v, transpose_b=True), key, p)
    subtracted = functions.sum(dy * y, axes=(-1,), keepdims=True)
    return weights * (dweights - (subtracted if dlse is None else subtracted - dlse))


def input_gradients(
    ds: Tensor, weights: Tensor, dy: Tensor, q: Tensor, k: Tensor, scale: float, key: Tensor | None, p: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values from those of the scores."""
    ds = ds * scale
    dq = matmul(ds, k)
    dk = matmul(ds, q, transpose_a=True)
    dv = matmul(dropped(weights, key, p), dy, transpose_a=True)
    return dq, dk, dv
