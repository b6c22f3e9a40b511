"""framework/native/ops/deform_conv.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec
from tests.framework.ops.specs.conv import _pair, _sides


def _reads(x, offset, weight, stride, padding, dilation):
    """For every number of columns [N, P, Q, R * S, G]: four pixels' rows and columns, weights and their slopes.

    Each is [4, ...]; weights and slopes of pixels outside are 0.
    """
    (sh, sw), (dh, dw), (top, _, left, _) = _pair(stride), _pair(dilation), _sides(padding)
    n, p, q, _ = offset.shape
    taps = weight.shape[1] * weight.shape[2]
    by = offset.reshape(n, p, q, offset.shape[3] // (2 * taps), taps, 2)
    tap_y, tap_x = np.divmod(np.arange(taps), weight.shape[2])
    y = np.arange(p)[:, None, None, None] * sh - top + tap_y * dh + by[..., 0]
    x_at = np.arange(q)[:, None, None] * sw - left + tap_x * dw + by[..., 1]
    row, column = np.floor(y), np.floor(x_at)
    down, right = y - row, x_at - column
    parts = []
    for i, j in np.ndindex(2, 2):
        r, c = row + i, column + j
        inside = (r >= 0) & (r < x.shape[1]) & (c >= 0) & (c < x.shape[2])
        along_y, along_x = (down if i else 1 - down), (right if j else 1 - right)
        slopes = ((2 * i - 1) * along_x * inside, (2 * j - 1) * along_y * inside)
        r, c = (np.clip(v, 0, limit - 1).astype(int) for v, limit in zip((r, c), x.shape[1:3], strict=True))
        parts.append((r, c, along_y * along_x * inside, *slopes))
    return [np.stack(part) for part in zip(*parts, strict=True)]


def _pixels(x, rows, columns):
    """The pixels' channels by offset group, [4, N, P, Q, G, taps, C/G]."""
    n, groups = len(x), rows.shape[4]
    parts = x.reshape(*x.shape[:3], groups, x.shape[3] // groups)
    return parts[np.arange(n)[:, None, None, None, None], rows, columns, np.arange(groups)[:, None], :]


def _products(columns, weight, groups):
    """Sums over taps and channels of columns [N, P, Q, taps, C] times weight."""
    n, p, q, taps, c = columns.shape
    grouped = columns.reshape(n, p, q, taps, groups, c // groups)
    return np.einsum("npqtgc,gktc->npqgk", grouped, weight.reshape(groups, -1, taps, c // groups)).reshape(
        n, p, q, len(weight)
    )


def _columns(values, mask):
    """[N, P, Q, taps, C] of values [N, P, Q, G, taps, C/G], times the mask."""
    if mask is not None:
        values = values * mask.reshape(*values.shape[:5], 1)
    return np.moveaxis(values, 3, 4).reshape(*values.shape[:3], values.shape[4], values.shape[3] * values.shape[5])


def _deform_conv2d(x, offset, weight, mask=None, bias=None, stride=1, padding=0, dilation=1, groups=1):
    rows, columns, weights, _, _ = _reads(x, offset, weight, stride, padding, dilation)
    values = (weights[..., None] * _pixels(x, rows, columns)).sum(0)
    y = _products(_columns(values, mask), weight, groups)
    return y if bias is None else y + bias


def _deform_conv2d_grad(dy, x, offset, weight, mask=None, stride=1, padding=0, dilation=1, groups=1):
    rows, columns, weights, down, right = _reads(x, offset, weight, stride, padding, dilation)
    pixels = _pixels(x, rows, columns)
    values = (weights[..., None] * pixels).sum(0)
    n, p, q, offset_groups, taps, each = values.shape
    share = np.ones((n, p, q, offset_groups, taps)) if mask is None else mask.reshape(n, p, q, offset_groups, taps)
    c = offset_groups * each
    grouped_dy = dy.reshape(n, p, q, groups, len(weight) // groups)
    by_tap = weight.reshape(groups, -1, taps, c // groups)
    dcolumns = np.einsum("npqgk,gktc->npqtgc", grouped_dy, by_tap).reshape(n, p, q, taps, offset_groups, each)
    dvalues = np.moveaxis(dcolumns, 3, 4)  # [N, P, Q, G, taps, C/G], of values times the mask
    grouped = _columns(values, share).reshape(n, p, q, taps, groups, c // groups)
    dweight = np.einsum("npqgk,npqtgc->gktc", grouped_dy, grouped).reshape(weight.shape)
    dmask = (dvalues * values).sum(-1)
    doffset = np.stack([(dvalues * (s[..., None] * pixels).sum(0)).sum(-1) * share for s in (down, right)], -1)
    dx = np.zeros((*x.shape[:3], offset_groups, each))
    images = np.broadcast_to(np.arange(n)[:, None, None, None, None], rows.shape[1:])
    group = np.broadcast_to(np.arange(offset_groups)[:, None], rows.shape[1:])
    for k in range(4):
        np.add.at(dx, (images, rows[k], columns[k], group), dvalues * (weights[k] * share)[..., None])
    return dx.reshape(x.shape), doffset.reshape(offset.shape), dweight, dmask.reshape(n, p, q, offset_groups * taps)


def _moves(*shape, seed=0, scale=1.5):
    """Offsets that keep away from whole numbers, where the interpolation has a kink."""
    rng = np.random.default_rng([seed, *shape])
    return np.round(rng.normal(0, scale, shape)) + rng.uniform(0.1, 0.9, shape)


def _case(x, weight, offset_groups, mask=False, **attrs):
    """Inputs without dy and bias, and attributes."""
    (sh, sw), (dh, dw) = _pair(attrs.get("stride", 1)), _pair(attrs.get("dilation", 1))
    top, bottom, left, right = _sides(attrs.get("padding", 0))
    p = (x[1] + top + bottom - dh * (weight[1] - 1) - 1) // sh + 1
    q = (x[2] + left + right - dw * (weight[2] - 1) - 1) // sw + 1
    places = offset_groups * weight[1] * weight[2]
    share = np.random.default_rng(5).uniform(0.1, 1, (x[0], p, q, places)) if mask else None
    return [normal(*x), _moves(x[0], p, q, places * 2), normal(*weight, seed=2), share], attrs


CASES = [
    _case((2, 6, 7, 4), (3, 3, 3, 4), 1, padding=1),
    _case((2, 6, 7, 4), (6, 3, 3, 4), 2, mask=True, padding=1),
    _case((1, 9, 8, 6), (4, 3, 2, 3), 3, mask=True, stride=2, padding=(2, 1), dilation=(2, 1), groups=2),
    _case((2, 5, 5, 36), (4, 1, 1, 9), 2, stride=(1, 2), groups=4),
    _case((2, 4, 5, 40), (70, 3, 3, 40), 4, mask=True, padding=(1, 0, 2, 1)),
    _case((0, 4, 5, 2), (3, 3, 3, 2), 1),
]
_GOOD, _ATTRS = CASES[0]
_X, _OFFSET, _WEIGHT, _ = _GOOD

spec(
    "deform_conv2d",
    reference=_deform_conv2d,
    roundings=64,
    samples=[
        Sample([*inputs, normal(inputs[2].shape[0], seed=7) if i % 2 else None], attrs)
        for i, (inputs, attrs) in enumerate(CASES)
    ],
    errors=[
        Bad([*_GOOD, None], ShapeError, r"offset has shape \[2, 6, 7, 18\] but must have \[2, 4, 5, 18\]"),
        Bad([_X, _OFFSET[..., :17], *_GOOD[2:], None], ShapeError, "17 numbers a pixel", _ATTRS),
        Bad([*_GOOD[:3], normal(2, 6, 7, 8), None], ShapeError, "mask has shape", _ATTRS),
        Bad([*_GOOD, normal(4)], ShapeError, "bias has shape", _ATTRS),
        Bad([_X, _OFFSET.astype(np.int64), *_GOOD[2:], None], DTypeError, "offset is int64", _ATTRS),
        Bad([*_GOOD, None], AttributeValueError, "stride is 0", {"stride": 0}),
    ],
)
spec(
    "deform_conv2d_grad",
    reference=_deform_conv2d_grad,
    roundings=64,
    gradient=False,
    samples=[
        Sample([normal(*inputs[1].shape[:3], inputs[2].shape[0], seed=9), *inputs], attrs) for inputs, attrs in CASES
    ],
    errors=[Bad([normal(2, 6, 7, 4), *_GOOD], ShapeError, "dy has shape", _ATTRS)],
)
