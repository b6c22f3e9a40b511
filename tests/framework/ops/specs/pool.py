"""framework/native/ops/pool.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _pair(v):
    return (v, v) if np.isscalar(v) else tuple(v) * (2 // len(v))


def _windows(shape, kernel, stride=(), padding=0, ceil_mode=False):
    """For each output position the slices of its pixels and its extent with padding, straight from the definition."""
    kernel = _pair(kernel)
    stride = _pair(stride) if stride not in ((), []) else kernel
    padding = (padding,) if np.isscalar(padding) else tuple(padding)
    sides = {1: lambda: padding * 4, 2: lambda: (padding[0],) * 2 + (padding[1],) * 2, 4: lambda: padding}[
        len(padding)
    ]()
    axes = []
    for i in range(2):
        size, before, after = shape[1 + i], sides[2 * i], sides[2 * i + 1]
        count = (size + before + after - kernel[i]) / stride[i]
        count = (math.ceil(count) if ceil_mode else math.floor(count)) + 1
        starts = [o * stride[i] - before for o in range(count)]
        if ceil_mode and starts[-1] >= size:
            starts.pop()
        axes.append([(max(0, s), min(size, s + kernel[i]), min(size + after, s + kernel[i]) - s) for s in starts])
    return axes


def _pool(x, reduce, windows):
    rows, columns = windows
    y = np.zeros((x.shape[0], len(rows), len(columns), x.shape[3]))
    for p, (top, bottom, height) in enumerate(rows):
        for q, (left, right, width) in enumerate(columns):
            y[:, p, q] = reduce(x[:, top:bottom, left:right], height * width)
    return y


def _max_pool(x, **attrs):
    return _pool(x, lambda w, area: w.max((1, 2)), _windows(x.shape, **attrs))


def _avg_pool(x, count_include_pad=True, **attrs):
    def mean(w, area):
        return w.sum((1, 2)) / (area if count_include_pad else w.shape[1] * w.shape[2])

    return _pool(x, mean, _windows(x.shape, **attrs))


def _argmax_positions(x, attrs):
    """(n, p, q, c) and the (row, column) of the first maximum of that window."""
    rows, columns = _windows(x.shape, **attrs)
    for n, p, q, c in np.ndindex(x.shape[0], len(rows), len(columns), x.shape[3]):
        (top, bottom, _), (left, right, _) = rows[p], columns[q]
        i, j = np.unravel_index(x[n, top:bottom, left:right, c].argmax(), (bottom - top, right - left))
        yield (n, p, q, c), (n, top + i, left + j, c)


def _max_pool_grad(dy, x, **attrs):
    dx = np.zeros_like(x)
    for window, pixel in _argmax_positions(x, attrs):
        dx[pixel] += dy[window]
    return dx


def _max_pool_pick(v, x, **attrs):
    y = np.zeros(_max_pool(x, **attrs).shape)
    for window, pixel in _argmax_positions(x, attrs):
        y[window] = v[pixel]
    return y


def _avg_pool_grad(dy, like, count_include_pad=True, **attrs):
    rows, columns = _windows(like.shape, **attrs)
    dx = np.zeros_like(like)
    for p, (top, bottom, height) in enumerate(rows):
        for q, (left, right, width) in enumerate(columns):
            area = height * width if count_include_pad else (bottom - top) * (right - left)
            dx[:, top:bottom, left:right] += dy[:, p : p + 1, q : q + 1] / area
    return dx


GEOMETRIES = [
    ((2, 5, 6, 3), {"kernel": 2}),
    ((1, 7, 7, 20), {"kernel": 3, "stride": 2, "padding": 1}),
    ((1, 6, 5, 2), {"kernel": 3, "stride": 2, "ceil_mode": True}),
    ((1, 5, 4, 2), {"kernel": (3, 2), "stride": (1, 3), "padding": (1, 0), "ceil_mode": True}),
    ((1, 4, 4, 70), {"kernel": 2, "stride": 1, "padding": (0, 1, 0, 1)}),
    ((1, 2, 2, 1), {"kernel": 2, "stride": 3, "padding": 1, "ceil_mode": True}),
    ((1, 9, 8, 3), {"kernel": 2, "stride": 3}),
    ((2, 3, 4, 2), {"kernel": (3, 4)}),
    ((1, 2, 2, 1), {"kernel": 3, "stride": 2, "ceil_mode": True}),  # wider than its input
]
TIES = np.tile(np.array([[1.0, 3.0, 3.0], [3.0, 2.0, 3.0], [0.0, 3.0, 3.0]])[None, :, :, None], (1, 1, 1, 2))


def _distinct(shape, seed=0):
    """Values at least 1/8 apart, so that a window's maximum stays where it is under a small step."""
    n = int(np.prod(shape))
    return (np.random.default_rng([seed, n]).permutation(n) / 8.0).reshape(shape)


def _gradient_samples(pool, values, extra=None):
    return [
        Sample([normal(*pool(np.zeros(shape), **attrs).shape, seed=5), values(shape)], {**attrs, **(extra or {})})
        for shape, attrs in GEOMETRIES
    ]


def _errors(name, *before):
    x = normal(1, 4, 4, 2)
    return [
        Bad([*before, normal(4, 4, 2)], ShapeError, rf"{name} has 3 axes", {"kernel": 2}),
        Bad([*before, x], AttributeValueError, r"padding \(2, 2\) along the height must lie in \[0, 1\]",
            {"kernel": 2, "padding": 2}),
        Bad([*before, x], AttributeValueError, r"kernel 0 and stride 1 .* must lie in \[1, 2147483647\]",
            {"kernel": 0, "stride": 1}),
        Bad([*before, x], AttributeValueError, "padding has 3 numbers", {"kernel": 2, "padding": (1, 1, 1)}),
        Bad([*before, x], ShapeError, "height 4, which with padding .* less than the kernel's 5", {"kernel": 5}),
        Bad([*before, x], AttributeValueError, "stride has 3 numbers", {"kernel": 2, "stride": (1, 1, 1)}),
    ]  # fmt: skip


spec(
    "max_pool2d",
    reference=_max_pool,
    exact=True,
    samples=[
        *(Sample([_distinct(shape)], attrs) for shape, attrs in GEOMETRIES),
        Sample([np.zeros((0, 4, 4, 3))], {"kernel": 2}),
        Sample([np.arange(126).reshape(1, 6, 7, 3).astype("uint8") * 2], {"kernel": 3, "stride": 2, "padding": 1}),
        Sample([np.arange(126).reshape(1, 6, 7, 3)[:, ::-1].astype("int8") - 64], {"kernel": 2}),
    ],
    errors=[*_errors("x"), Bad([normal(1, 4, 4, 2).astype("int32")], DTypeError, "x is int32", {"kernel": 2})],
)
spec(
    "max_pool2d_grad",
    reference=_max_pool_grad,
    samples=[
        *_gradient_samples(_max_pool, _distinct),
        Sample([normal(1, 2, 2, 2), TIES], {"kernel": 2, "stride": 1}, differentiable=[0]),
        Sample([normal(1, 1, 1, 3), np.full((1, 2, 2, 3), -np.inf)], {"kernel": 2}),
    ],
    errors=[Bad([normal(1, 2, 2, 1), normal(1, 4, 4, 2)], ShapeError, "dy has shape .* must have", {"kernel": 2})],
)
spec(
    "max_pool2d_pick",
    reference=_max_pool_pick,
    exact=True,
    samples=[
        *(Sample([normal(*shape, seed=7), _distinct(shape)], attrs) for shape, attrs in GEOMETRIES[:4]),
        Sample([normal(*TIES.shape), TIES], {"kernel": 2, "stride": 1}, differentiable=[0]),
    ],
    errors=[Bad([normal(1, 2, 2, 1), normal(1, 4, 4, 2)], ShapeError, "v has shape .* must have", {"kernel": 2})],
)
spec(
    "avg_pool2d",
    reference=_avg_pool,
    roundings=16,
    samples=[
        *(Sample([normal(*shape)], attrs) for shape, attrs in GEOMETRIES),
        *(Sample([normal(*shape)], {**attrs, "count_include_pad": False}) for shape, attrs in GEOMETRIES[1:4]),
        Sample([np.zeros((0, 4, 4, 3))], {"kernel": 2}),
    ],
    errors=_errors("x"),
)
spec(
    "avg_pool2d_grad",
    reference=_avg_pool_grad,
    samples=[
        *_gradient_samples(_avg_pool, np.zeros),
        *_gradient_samples(_avg_pool, np.zeros, {"count_include_pad": False})[1:4],
    ],
    errors=[Bad([normal(1, 2, 2, 1), normal(1, 4, 4, 2)], ShapeError, "dy has shape .* must have", {"kernel": 2})],
)


def _adaptive_windows(shape, size):
    def axis(n, out):
        return [(o * n // out, -(-(o + 1) * n // out), 0) for o in range(out)]

    return [axis(n, out) for n, out in zip(shape[1:3], _pair(size), strict=True)]


def _adaptive_max(x, size):
    return _pool(x, lambda w, _: w.max((1, 2)), _adaptive_windows(x.shape, size))


def _adaptive_avg(x, size):
    return _pool(x, lambda w, _: w.mean((1, 2)), _adaptive_windows(x.shape, size))


def _adaptive_first_largest(x, size):
    rows, columns = _adaptive_windows(x.shape, size)
    for n, p, q, c in np.ndindex(x.shape[0], len(rows), len(columns), x.shape[3]):
        (top, bottom, _), (left, right, _) = rows[p], columns[q]
        i, j = np.unravel_index(x[n, top:bottom, left:right, c].argmax(), (bottom - top, right - left))
        yield (n, p, q, c), (n, top + i, left + j, c)


def _adaptive_max_grad(dy, x, size):
    dx = np.zeros_like(x)
    for window, pixel in _adaptive_first_largest(x, size):
        dx[pixel] += dy[window]
    return dx


def _adaptive_max_pick(v, x, size):
    y = np.zeros(_adaptive_max(x, size).shape)
    for window, pixel in _adaptive_first_largest(x, size):
        y[window] = v[pixel]
    return y


def _adaptive_avg_grad(dy, like, size):
    dx = np.zeros_like(like)
    rows, columns = _adaptive_windows(like.shape, size)
    for p, (top, bottom, _) in enumerate(rows):
        for q, (left, right, _) in enumerate(columns):
            area = (bottom - top) * (right - left)
            dx[:, top:bottom, left:right] += dy[:, p : p + 1, q : q + 1] / area
    return dx


ADAPTIVE = [  # sizes that divide, that do not, and that are larger than the image
    ((2, 6, 4, 3), (3, 2)),
    ((1, 7, 5, 20), (3, 4)),
    ((1, 5, 6, 70), 1),
    ((1, 3, 2, 2), (5, 7)),
    ((0, 4, 4, 3), 2),
]
ADAPTIVE_ERRORS = [
    (normal(4, 4, 2), ShapeError, "x has 3 axes", 2),
    (normal(1, 4, 4, 2), AttributeValueError, r"size holds 0 for the height; it must lie in \[1, ", (0, 2)),
    (normal(1, 4, 4, 2), AttributeValueError, "size has 3 numbers", (1, 2, 3)),
    (np.zeros((1, 0, 4, 2)), ShapeError, "has no pixels along the height", 2),
]


def _adaptive_gradient_samples(values):
    return [
        Sample([normal(shape[0], *_pair(size), shape[3], seed=5), values(shape)], {"size": size})
        for shape, size in ADAPTIVE
    ]


def _adaptive_errors(*before):
    return [Bad([*before, x], error, match, {"size": size}) for x, error, match, size in ADAPTIVE_ERRORS]


WRONG_DY = Bad([normal(1, 2, 2, 1), normal(1, 4, 4, 2)], ShapeError, "dy has shape .* must have", {"size": 2})
spec(
    "adaptive_max_pool2d",
    reference=_adaptive_max,
    exact=True,
    samples=[Sample([_distinct(shape)], {"size": size}) for shape, size in ADAPTIVE],
    errors=_adaptive_errors(),
)
spec(
    "adaptive_max_pool2d_grad",
    reference=_adaptive_max_grad,
    samples=_adaptive_gradient_samples(_distinct),
    errors=[WRONG_DY],
)
spec(
    "adaptive_max_pool2d_pick",
    reference=_adaptive_max_pick,
    exact=True,
    samples=[Sample([normal(*shape, seed=7), _distinct(shape)], {"size": size}) for shape, size in ADAPTIVE],
    errors=[Bad([normal(1, 2, 2, 1), normal(1, 4, 4, 2)], ShapeError, "v has shape .* must have", {"size": 2})],
)
spec(
    "adaptive_avg_pool2d",
    reference=_adaptive_avg,
    roundings=32,
    samples=[Sample([normal(*shape)], {"size": size}) for shape, size in ADAPTIVE],
    errors=_adaptive_errors(),
)
spec(
    "adaptive_avg_pool2d_grad",
    reference=_adaptive_avg_grad,
    roundings=16,
    samples=_adaptive_gradient_samples(np.zeros),
    errors=[WRONG_DY],
)
