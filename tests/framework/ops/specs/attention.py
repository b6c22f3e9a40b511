"""framework/native/ops/attention.cc"""

from itertools import pairwise

import numpy as np

import framework
from framework import ops
from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec

OFFSETS = np.array([0, 3, 3, 4, 9])  # four sequences, the second empty
KEYS = np.array([0, 2, 3, 8, 9], np.int32)  # as many, of other lengths
KEY = np.array([7, 3])


def _factors(key, p, heads, rows, columns):
    """What dropout multiplies the weights of all heads by."""
    ones = framework.tensor(np.ones((heads, rows, columns)))
    return ops.dropout(ones, framework.tensor(key), p=p).numpy() if p else np.ones((heads, rows, columns))


def _blocks(offsets, k_offsets):
    return [slice(*p) for p in pairwise(offsets)], [slice(*p) for p in pairwise(k_offsets)]


def _heads_of(q, heads, scale):
    width = q.shape[1] // heads
    return [slice(h * width, h * width + width) for h in range(heads)], scale or width**-0.5


def _scores(q, k, scale, causal, window):
    s = scale * q @ k.T
    n, m = s.shape
    ahead = np.arange(m) - (np.arange(n)[:, None] + m - n)
    if causal:
        s[ahead > 0] = -np.inf
    if window:
        s[np.abs(ahead) >= window] = -np.inf
    return s


def _attention(q, k, v, offsets, k_offsets=None, key=None, heads=1, scale=0.0, causal=False, p=0.0, window=0):
    """Sequence by sequence and head by head."""
    k_offsets = offsets if k_offsets is None else k_offsets
    y, lse = np.zeros(q.shape), np.zeros((len(q), heads))
    factors = _factors(key, p, heads, len(q), len(k))
    columns, scale = _heads_of(q, heads, scale)
    for rows, keys in zip(*_blocks(offsets, k_offsets), strict=True):
        for h, c in enumerate(columns):
            s = _scores(q[rows, c], k[keys, c], scale, causal, window)
            top = s.max(1, keepdims=True, initial=-1e300)
            e = np.exp(s - top)
            y[rows, c] = (e / e.sum(1, keepdims=True) * factors[h, rows, keys]) @ v[keys, c]
            lse[rows, h] = (top + np.log(e.sum(1, keepdims=True)))[:, 0]
    return y, lse


def _attention_grad(
    dy, y, lse, q, k, v, offsets, k_offsets=None, key=None, dlse=None, heads=1, scale=0.0, causal=False, p=0.0, window=0
):
    k_offsets = offsets if k_offsets is None else k_offsets
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    factors = _factors(key, p, heads, len(q), len(k))
    dlse = np.zeros(lse.shape) if dlse is None else dlse
    columns, scale = _heads_of(q, heads, scale)
    for rows, keys in zip(*_blocks(offsets, k_offsets), strict=True):
        for h, c in enumerate(columns):
            f = factors[h, rows, keys]
            w = np.exp(_scores(q[rows, c], k[keys, c], scale, causal, window) - lse[rows, h : h + 1])
            dv[keys, c] = (w * f).T @ dy[rows, c]
            delta = (dy[rows, c] * y[rows, c]).sum(1, keepdims=True) - dlse[rows, h : h + 1]
            ds = w * (dy[rows, c] @ v[keys, c].T * f - delta) * scale
            dq[rows, c], dk[keys, c] = ds @ k[keys, c], ds.T @ q[rows, c]
    return dq, dk, dv


def _self_attention(qkv, offsets, key=None, **attrs):
    return _attention(*np.split(qkv, 3, axis=1), offsets, None, key, **attrs)


def _self_attention_grad(dy, y, lse, qkv, offsets, key=None, dlse=None, **attrs):
    return np.concatenate(
        _attention_grad(dy, y, lse, *np.split(qkv, 3, axis=1), offsets, None, key, dlse, **attrs), axis=1
    )


def _qkv(rows, keys, width):
    return [normal(rows, width, seed=1), normal(keys, width, seed=2), normal(keys, width, seed=3)]


CALLS = [  # inputs after the gradient's own, attributes
    ([*_qkv(9, 9, 4), OFFSETS, None, None], {"heads": 2}),
    ([*_qkv(9, 9, 3), OFFSETS, None, None], {"heads": 1, "causal": True, "scale": 0.3}),
    ([*_qkv(9, 9, 4), OFFSETS, KEYS, None], {"heads": 2}),
    ([*_qkv(9, 9, 4), OFFSETS, np.array([0, 4, 4, 6, 9]), KEY], {"heads": 2, "p": 0.4}),
    ([*_qkv(9, 9, 4), OFFSETS, None, KEY], {"heads": 4, "causal": True, "p": 0.4}),
    ([*_qkv(9, 9, 4), OFFSETS, None, None], {"heads": 2, "window": 2}),
    ([*_qkv(9, 9, 4), np.array([0, 9]), np.array([0, 9]), KEY], {"heads": 1, "causal": True, "window": 3, "p": 0.2}),
]


def _grad_inputs(inputs, attrs, with_dlse):
    y, lse = _attention(*inputs, **attrs)
    dlse = normal(*lse.shape, seed=5) if with_dlse else None
    return [normal(*y.shape, seed=4), y, lse, *inputs, dlse]


ERRORS = [
    Bad([*_qkv(9, 9, 4), OFFSETS], AttributeValueError, "window is -1 but must be 0", {"heads": 2, "window": -1}),
    Bad([*_qkv(9, 9, 4), OFFSETS], AttributeValueError, "heads is 3 but must divide D, which is 4", {"heads": 3}),
    Bad([*_qkv(9, 9, 4), OFFSETS], AttributeValueError, r"p is 1 but must lie in \[0, 1\)", {"heads": 2, "p": 1.0}),
    Bad([*_qkv(9, 9, 4), OFFSETS], AttributeValueError, "there is no key to draw from", {"heads": 2, "p": 0.5}),
    Bad([*_qkv(9, 8, 4), OFFSETS], ShapeError, r"k has shape \[8, 4\] but must have \[9, 4\]", {"heads": 2}),
    Bad([*_qkv(9, 9, 4), OFFSETS, KEYS[:3]], ShapeError, "k_offsets cut 2 sequences but offsets cut 4", {"heads": 2}),
    Bad([*_qkv(9, 9, 4), OFFSETS[:4]], AttributeValueError, "offsets ends at 4 but there are 9 rows", {"heads": 2}),
    Bad(
        [*_qkv(9, 8, 4), OFFSETS, KEYS],
        AttributeValueError,
        "k_offsets ends at 9 but there are 8 rows",
        {"heads": 2},
    ),
    Bad(
        [normal(9, 4), normal(9, 4).astype(np.float16), normal(9, 4), OFFSETS],
        DTypeError,
        "q is float32 but k is float16",
        {"heads": 2},
    ),
]
# Roundings: a product of at most 4 terms, an exponential (1 ulp, times the size of the score), a sum of at most 5, a
# product again. test_attention.py has longer sequences.
spec(
    "ragged_attention",
    reference=_attention,
    samples=[Sample(inputs, attrs) for inputs, attrs in CALLS],
    roundings=24,
    errors=ERRORS,
)
spec(
    "ragged_attention_grad",
    reference=_attention_grad,
    samples=[Sample(_grad_inputs(inputs, attrs, i % 2 == 0), attrs) for i, (inputs, attrs) in enumerate(CALLS)],
    roundings=48,
    errors=[
        Bad(
            [normal(9, 3), *_attention(*CALLS[0][0], **CALLS[0][1]), *CALLS[0][0]],
            ShapeError,
            r"dy has shape \[9, 3\] but must have \[9, 4\]",
            {"heads": 2},
        ),
        Bad(
            [integers(0, 9, 9, 4), *_attention(*CALLS[0][0], **CALLS[0][1]), *CALLS[0][0]],
            DTypeError,
            "dy is int64 but must be float32",
            {"heads": 2},
        ),
    ],
)
PACKED = [
    ([normal(9, 12), OFFSETS, None], {"heads": 2}),
    ([normal(9, 9), OFFSETS, None], {"heads": 3, "causal": True}),
    ([normal(9, 12), OFFSETS.astype(np.int32), KEY], {"heads": 2, "p": 0.3}),
    ([normal(9, 12), OFFSETS, None], {"heads": 2, "causal": True, "window": 2}),
]
spec(
    "ragged_self_attention",
    reference=_self_attention,
    samples=[Sample(inputs, attrs) for inputs, attrs in PACKED],
    roundings=24,
    errors=[
        Bad([normal(9, 8), OFFSETS], ShapeError, r"qkv \[9, 8\] has 8 columns but must have 3 D", {"heads": 2}),
        Bad([normal(9, 12), OFFSETS], AttributeValueError, "heads is 3 but must divide D, which is 4", {"heads": 3}),
        Bad([normal(8, 12), OFFSETS], AttributeValueError, "offsets ends at 9 but there are 8 rows", {"heads": 2}),
    ],
)
spec(
    "ragged_self_attention_grad",
    reference=_self_attention_grad,
    samples=[
        Sample(
            [normal(9, q.shape[1] // 3, seed=4), *_self_attention(q, o, key, **attrs), q, o, key, dlse],
            attrs,
        )
        for ((q, o, key), attrs), dlse in zip(PACKED, (normal(9, 2, seed=5), None, None, None), strict=True)
    ],
    roundings=48,
    errors=[
        Bad(
            [normal(9, 4), normal(9, 4), normal(9, 3), normal(9, 12), OFFSETS],
            ShapeError,
            r"lse has shape \[9, 3\] but must have \[9, 2\]",
            {"heads": 2},
        ),
        Bad(
            [normal(9, 4), normal(9, 4), integers(0, 9, 9, 2), normal(9, 12), OFFSETS],
            DTypeError,
            "lse is int64 but must be float32",
            {"heads": 2},
        ),
    ],
)
