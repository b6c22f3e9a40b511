"""framework/native/ops/sampling.cc, pixel by pixel as PyTorch's documentation of grid_sample has it."""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _reflected(v, low, high):
    """Mirrored at both ends as often as it takes."""
    if low == high:
        return 0.0
    while not low <= v <= high:
        v = 2 * low - v if v < low else 2 * high - v
    return v


def _place(v, n, padding, align):
    v = (v + 1) / 2 * (n - 1) if align else ((v + 1) * n - 1) / 2
    if padding == "reflection":
        v = _reflected(v, 0, n - 1) if align else _reflected(v, -0.5, n - 0.5)
    return v if padding == "zeros" else min(max(v, 0.0), n - 1)


def _axis(v, n, mode):
    """(pixel, weight) along an axis, without those outside."""
    low = int(np.floor(v))
    found = [(int(np.round(v)), 1.0)] if mode == "nearest" else [(low, 1 - (v - low)), (low + 1, v - low)]
    return [(i, w) for i, w in found if 0 <= i < n]


def _matrix(shape, grid, mode="bilinear", padding="zeros", align_corners=False):
    """[N, P, Q, H, W]: what each pixel counts."""
    n, h, w, _ = shape
    m = np.zeros((n, *grid.shape[1:3], h, w))
    for place in np.ndindex(n, *grid.shape[1:3]):
        x, y = grid[place]
        for i, a in _axis(_place(y, h, padding, align_corners), h, mode):
            for j, b in _axis(_place(x, w, padding, align_corners), w, mode):
                m[(*place, i, j)] += a * b
    return m


def _sample(x, grid, **attrs):
    return np.einsum("npqhw,nhwc->npqc", _matrix(x.shape, grid, **attrs), x)


def _sample_grad(dy, x, grid, **attrs):
    """By the grid by central differences: between its kinks the function is a product of straight lines."""
    dx = np.einsum("npqhw,npqc->nhwc", _matrix(x.shape, grid, **attrs), dy)
    dgrid = np.zeros(grid.shape)
    for axis in range(2):
        step = np.zeros(2)
        step[axis] = 2.0**-20
        up, down = (_sample(x, grid + s * step, **attrs) for s in (1, -1))
        dgrid[..., axis] = ((up - down) * dy).sum(-1) / 2.0**-19
    return dx, dgrid


def _sample_grad_grad(ddx, ddgrid, dy, x, grid, **attrs):
    """By dy from what _sample_grad is linear in; by x and the grid as _sample_grad of ddx, beside what ddgrid moves."""
    ends = [grid + s * 2.0**-20 * ddgrid for s in (1, -1)]
    moved = [_sample(x, g, **attrs) for g in ends]
    ddy = _sample(ddx, grid, **attrs) + (moved[0] - moved[1]) / 2.0**-19
    dx = (_sample_grad(dy, x, ends[0], **attrs)[0] - _sample_grad(dy, x, ends[1], **attrs)[0]) / 2.0**-19
    far = [grid + s * 2.0**-10 * ddgrid for s in (1, -1)]  # bilinear between its kinks: any distance will do
    slopes = [_sample_grad(dy, x, g, **attrs)[1] for g in far]
    # d/dgrid of <ddgrid, dgrid(grid)> is the symmetric second derivative along ddgrid.
    return ddy, dx, _sample_grad(dy, ddx, grid, **attrs)[1] + (slopes[0] - slopes[1]) / 2.0**-9


def _grid(shape, *size, reach=1.4, align=False, seed=0):
    """Places a tenth of a pixel or more away from pixels' centres and edges; some lie outside."""
    n, h, w, _ = shape
    rng = np.random.default_rng([seed, n, *size])
    pixels = [rng.uniform(-reach * e / 2, reach * e / 2, (n, *size)) + e / 2 for e in (w, h)]
    pixels = [np.floor(p) + 0.1 + 0.3 * (p - np.floor(p)) + rng.integers(0, 2, p.shape) * 0.5 for p in pixels]
    return np.stack([2 * p / (e - 1) - 1 if align else (2 * p + 1) / e - 1
                     for p, e in zip(pixels, (w, h), strict=True)], -1)  # fmt: skip


SHAPES = [((2, 5, 4, 3), (3, 4)), ((1, 3, 6, 70), (2, 5))]
CALLS = [
    (shape, size, {"mode": mode, "padding": padding, "align_corners": align})
    for k, (shape, size) in enumerate(SHAPES)
    for mode in ("bilinear", "nearest")
    for i, padding in enumerate(("zeros", "border", "reflection"))
    for align in ((False, True) if k == 0 else ((i + k) % 2 == 0,))
]
SAMPLES = [
    Sample([normal(*shape), _grid(shape, *size, align=attrs["align_corners"], reach=3.0 if i % 3 == 0 else 1.4)], attrs)
    for i, (shape, size, attrs) in enumerate(CALLS)
]
X, GRID = normal(1, 3, 3, 2), np.zeros((1, 2, 2, 2))
ERRORS = [
    ([normal(3, 3, 2), GRID], ShapeError, "x has 3 axes", {}),
    ([X, np.zeros((2, 2, 2, 2))], ShapeError, r"grid .* is for 2 images but x \[1, 3, 3, 2\] has 1", {}),
    ([X, np.zeros((1, 2, 2, 3))], ShapeError, r"has 3 numbers a place \(axis -1\) but must have 2", {}),
    ([np.zeros((1, 0, 3, 2)), GRID], ShapeError, "has no pixels to sample", {}),
    ([X, GRID], AttributeValueError, "mode is 'cubic'; takes 'bilinear', 'nearest'", {"mode": "cubic"}),
    ([X, GRID], AttributeValueError, "padding is 'wrap'; takes 'zeros', 'border', 'reflection'", {"padding": "wrap"}),
    ([X, GRID.astype(np.int64)], DTypeError, "grid is int64 but x is float32", {}),
]
# A place is a sum of numbers of the image's extent; its fraction has their rounding, and is a weight.
spec(
    "grid_sample",
    reference=_sample,
    roundings=64,
    samples=[*SAMPLES, Sample([np.zeros((0, 3, 3, 2)), np.zeros((0, 2, 2, 2))]), Sample([X, np.zeros((1, 0, 2, 2))])],
    errors=[Bad(*bad) for bad in ERRORS],
)
spec(
    "grid_sample_grad",
    reference=_sample_grad,
    roundings=512,  # what central differences of 2^-20 lose is far below float32's roundings only
    dtypes=("float32",),
    samples=[Sample([normal(*_sample(*s.inputs, **s.attrs).shape, seed=4), *s.inputs], s.attrs) for s in SAMPLES],
    errors=[
        Bad([normal(1, 2, 2, 3), X, GRID], ShapeError, r"dy has shape \[1, 2, 2, 3\] but must have \[1, 2, 2, 2\]"),
        *(Bad([normal(1, 2, 2, 2), *inputs], *rest) for inputs, *rest in ERRORS[:3]),
    ],
)


def _second(sample):
    """Its inputs behind a gradient of the image, one of the grid, and one of the result."""
    x, grid = sample.inputs
    return [normal(*x.shape, seed=5), normal(*grid.shape, seed=6), normal(*grid.shape[:3], x.shape[3], seed=4), x, grid]


BESIDE = [X, GRID, normal(1, 2, 2, 2)]
spec(
    "grid_sample_grad_grad",
    reference=_sample_grad_grad,
    roundings=512,
    dtypes=("float32",),
    samples=[Sample(_second(s), s.attrs) for s in SAMPLES],
    errors=[
        Bad([X[:, 1:], *BESIDE[1:], X, GRID], ShapeError, r"ddx has shape \[1, 2, 3, 2\] but must have"),
        Bad([X, GRID[:, 1:], BESIDE[2], X, GRID], ShapeError, r"ddgrid has shape \[1, 1, 2, 2\] but must have"),
        Bad([X, GRID, normal(1, 2, 2, 3), X, GRID], ShapeError, r"dy has shape \[1, 2, 2, 3\] but must have"),
        *(Bad([*BESIDE, *inputs], *rest) for inputs, *rest in ERRORS[:3]),
    ],
    gradient=False,
)
