"""framework/native/ops/dense_attention.cc"""

import numpy as np

import framework
from framework import ops
from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec

KEY = np.array([7, 3])


def _factors(key, p, *shape):
    """What dropout multiplies the weights of all sequences and heads by."""
    ones = framework.tensor(np.ones(shape))
    return ops.dropout(ones, framework.tensor(key), p=p).numpy() if p else np.ones(shape)


def _heads_of(q, heads, scale):
    width = q.shape[-1] // heads
    return [slice(h * width, h * width + width) for h in range(heads)], scale or width**-0.5


def _scores(q, k, mask, scale, causal):
    s = scale * q @ k.T
    if mask is not None and mask.dtype == bool:
        s = np.where(mask, s, -np.inf)
    elif mask is not None:
        s = np.where(s + mask <= -1e30, -np.inf, s + mask)
    if causal:
        n, m = s.shape
        s[np.arange(m) > np.arange(n)[:, None] + m - n] = -np.inf
    return s


def _weights(s):
    """Softmax with lse; a row that sees nothing is 0."""
    top = np.maximum(s.max(1, keepdims=True, initial=-1e300), -1e300)
    e = np.exp(s - top)
    total = e.sum(1, keepdims=True)
    with np.errstate(all="ignore"):
        return np.where(total > 0, e / total, 0.0), (np.where(total > 0, top + np.log(total), -np.inf))[:, 0]


def _wide_mask(mask, *shape):
    return None if mask is None else np.broadcast_to(mask, shape)


def _attention(q, k, v, mask=None, key=None, heads=1, scale=0.0, causal=False, p=0.0):
    """Sequence by sequence and head by head."""
    shape = (len(q), heads, q.shape[1], k.shape[1])
    y, lse = np.zeros(q.shape), np.zeros((*q.shape[:2], heads))
    factors, mask = _factors(key, p, *shape), _wide_mask(mask, *shape)
    columns, scale = _heads_of(q, heads, scale)
    for b in range(len(q)):
        for h, c in enumerate(columns):
            s = _scores(q[b, :, c], k[b, :, c], None if mask is None else mask[b, h], scale, causal)
            w, lse[b, :, h] = _weights(s)
            y[b, :, c] = (w * factors[b, h]) @ v[b, :, c]
    return y, lse


def _attention_grad(dy, y, lse, q, k, v, mask=None, key=None, dlse=None, heads=1, scale=0.0, causal=False, p=0.0):
    shape = (len(q), heads, q.shape[1], k.shape[1])
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    factors, mask = _factors(key, p, *shape), _wide_mask(mask, *shape)
    dlse = np.zeros(lse.shape) if dlse is None else dlse
    columns, scale = _heads_of(q, heads, scale)
    for b in range(len(q)):
        for h, c in enumerate(columns):
            s = _scores(q[b, :, c], k[b, :, c], None if mask is None else mask[b, h], scale, causal)
            known = lse[b, :, h : h + 1]
            w = np.where(np.isfinite(known), np.exp(s - np.where(np.isfinite(known), known, 0.0)), 0.0)
            dv[b, :, c] = (w * factors[b, h]).T @ dy[b, :, c]
            delta = (dy[b, :, c] * y[b, :, c]).sum(1, keepdims=True) - dlse[b, :, h : h + 1]
            ds = w * (dy[b, :, c] @ v[b, :, c].T * factors[b, h] - delta) * scale
            dq[b, :, c], dk[b, :, c] = ds @ k[b, :, c], ds.T @ q[b, :, c]
    return dq, dk, dv


def _qkv(batch, rows, keys, width):
    return [normal(batch, rows, width, seed=1), *(normal(batch, keys, width, seed=s) for s in (2, 3))]


def _seen(*shape, blind=False):
    """A mask that hides some keys, but of each row the first, or all from the first query."""
    mask = normal(*shape, seed=6) > -0.5
    mask[..., 0] = True
    mask[:, :, 0] &= not blind
    return mask


def _added(*shape):
    bias = normal(*shape, seed=7)
    bias[..., 1] = -np.inf
    return bias


CALLS = [  # inputs after the gradient's own, attributes
    ([*_qkv(2, 4, 4, 6), None, None], {"heads": 2}),
    ([*_qkv(2, 5, 3, 4), _seen(2, 2, 5, 3), None], {"heads": 2, "scale": 0.3}),
    ([*_qkv(2, 3, 4, 4), _seen(2, 1, 1, 4), KEY], {"heads": 2, "p": 0.4}),
    ([*_qkv(1, 4, 6, 3), normal(1, 1, 4, 6, seed=8), None], {"heads": 1, "causal": True}),
    ([*_qkv(2, 4, 4, 4), _seen(1, 2, 4, 4), KEY], {"heads": 2, "causal": True, "p": 0.3}),
    ([*_qkv(2, 4, 4, 4), _seen(1, 2, 4, 4, blind=True), KEY], {"heads": 2, "p": 0.3}),
    ([*_qkv(1, 5, 3, 4), None, None], {"heads": 4, "causal": True}),  # the first two queries see nothing
]
ADDED = ([*_qkv(1, 3, 4, 4), _added(1, 2, 3, 4), None], {"heads": 2})  # holds infinities: no differences of it


def _grad_inputs(inputs, attrs, with_dlse):
    y, lse = _attention(*inputs, **attrs)
    dlse = normal(*lse.shape, seed=5) if with_dlse else None
    return [normal(*y.shape, seed=4), y, lse, *inputs, dlse]


def _smooth(inputs, attrs, chosen):
    """The inputs to differentiate by: none where a query sees nothing, whose lse is -inf."""
    return chosen if np.isfinite(_attention(*inputs, **attrs)[1]).all() else []


Q = _qkv(2, 3, 4, 4)
ERRORS = [
    (Q, AttributeValueError, "heads is 3 but must divide D, which is 4", {"heads": 3}),
    (Q, AttributeValueError, r"p is 1 but must lie in \[0, 1\)", {"heads": 2, "p": 1.0}),
    (Q, AttributeValueError, "there is no key to draw from", {"heads": 2, "p": 0.5}),
    ([Q[0], normal(2, 4, 6), Q[2]], ShapeError, r"k has shape \[2, 4, 6\] but must have \[2, 4, 4\]", {"heads": 2}),
    ([Q[0][0], *Q[1:]], ShapeError, "q has 2 axes", {"heads": 2}),
    ([*Q, _seen(2, 2, 3, 1)], ShapeError, r"mask \[2, 2, 3, 1\] must have shape \[2, 2, 3, 4\]", {"heads": 2}),
    ([*Q, _seen(3, 2, 3, 4)], ShapeError, r"mask \[3, 2, 3, 4\] must have shape", {"heads": 2}),
    ([*Q, integers(0, 2, 2, 2, 3, 4)], DTypeError, "mask is int64 but must be bool, or float32", {"heads": 2}),
    ([Q[0], Q[1].astype(np.float16), Q[2]], DTypeError, "q is float32 but k is float16", {"heads": 2}),
]
# Roundings as of ragged attention. test_dense_attention.py has longer sequences.
spec(
    "scaled_dot_product_attention",
    reference=_attention,
    roundings=24,
    samples=[
        *(Sample(inputs, attrs, _smooth(inputs, attrs, None)) for inputs, attrs in CALLS),
        Sample(*ADDED, differentiable=[0, 1, 2]),
        Sample([*_qkv(0, 3, 4, 4)], {"heads": 2}),
        Sample([*_qkv(2, 3, 0, 4)], {"heads": 2}),
    ],
    errors=[Bad(*bad) for bad in ERRORS],
)
spec(
    "scaled_dot_product_attention_grad",
    reference=_attention_grad,
    roundings=48,
    samples=[
        Sample(_grad_inputs(inputs, attrs, i % 2 == 0), attrs, _smooth(inputs, attrs, None))
        for i, (inputs, attrs) in enumerate(CALLS)
    ],
    errors=[
        Bad(
            [normal(2, 4, 3), *_attention(*CALLS[0][0], **CALLS[0][1]), *CALLS[0][0]],
            ShapeError,
            r"dy has shape \[2, 4, 3\] but must have \[2, 4, 6\]",
            {"heads": 2},
        )
    ],
)
