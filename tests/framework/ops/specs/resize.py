"""framework/native/ops/resize.cc"""

import numpy as np

from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _target(shape, size, scale):
    given = size if size else scale
    given = (given,) if np.isscalar(given) else tuple(given)
    given = given * (2 // len(given))
    return given if size else tuple(int(np.floor(s * n)) for s, n in zip(given, shape[1:3], strict=True))


def _nearest_matrix(n, out):
    m = np.zeros((out, n))
    m[np.arange(out), [o * n // out for o in range(out)]] = 1
    return m


def _linear_matrix(n, out, align_corners):
    """Rows hold the hat function max(0, 1 - |at - i|) around each output's place."""
    o = np.arange(out)
    at = o * (n - 1) / max(out - 1, 1) if align_corners else (o + 0.5) * n / out - 0.5
    return np.maximum(0, 1 - np.abs(np.clip(at, 0, n - 1)[:, None] - np.arange(n)[None]))


def _matrices(sizes, targets, align_corners):
    """How rows and columns of the output are mixed from those of the input."""
    pairs = zip(sizes, targets, strict=True)
    if align_corners is None:
        return [_nearest_matrix(n, out) for n, out in pairs]
    return [_linear_matrix(n, out, align_corners) for n, out in pairs]


def _resize(x, like=None, size=(), scale=(), align_corners=None):
    targets = _target(x.shape, size, scale) if like is None else like.shape[1:3]
    rows, columns = _matrices(x.shape[1:3], targets, align_corners)
    return np.einsum("ph,qw,nhwc->npqc", rows, columns, x)


def _resize_grad(dy, like, align_corners=None):
    rows, columns = _matrices(like.shape[1:3], dy.shape[1:3], align_corners)
    return np.einsum("ph,qw,npqc->nhwc", rows, columns, dy)


def _bilinear(x, like=None, align_corners=False, **attrs):
    return _resize(x, like, align_corners=align_corners, **attrs)


def _bilinear_grad(dy, like, align_corners=False):
    return _resize_grad(dy, like, align_corners)


TARGETS = [
    ((2, 3, 4, 5), {"scale": (2.0,)}),
    ((1, 5, 4, 3), {"size": (3, 9)}),
    ((1, 7, 6, 2), {"scale": (0.5, 1.5)}),
    ((1, 1, 3, 1), {"size": (4,)}),
    ((1, 4, 5, 2), {"size": (1, 5)}),
]
CORNERS = [{"align_corners": False}, {"align_corners": True}]


def _samples(kinds):
    sized = [Sample([normal(*shape)], {**a, **kind}) for shape, a in TARGETS for kind in kinds]
    alike = [Sample([normal(2, 3, 4, 5), np.zeros((1, 5, 9, 2))], kind) for kind in kinds]
    return sized + alike + [Sample([np.zeros((0, 2, 2, 3))], {"size": (4, 4)})]


def _gradient_samples(kinds):
    shapes = [((s[0], *_target(s, a.get("size"), a.get("scale")), s[3]), s) for s, a in TARGETS]
    return [Sample([normal(*dy, seed=3), np.zeros(like)], kind) for dy, like in shapes for kind in kinds]


ERRORS = [
    Bad([normal(1, 2, 2, 1)], AttributeValueError, "either size, scale or like"),
    Bad([normal(1, 2, 2, 1)], AttributeValueError, "either size, scale or like", {"size": (4,), "scale": (2.0,)}),
    Bad([normal(1, 2, 2, 1)], AttributeValueError, "height 0 and width 0", {"scale": (0.25,)}),
    Bad([normal(1, 2, 2, 1)], AttributeValueError, "one number, or two", {"size": (4, 4, 4)}),
    Bad([normal(2, 2, 1)], ShapeError, "x has 3 axes", {"size": (4,)}),
    Bad([normal(1, 2, 2, 1), normal(1, 2, 2, 1)], AttributeValueError, "either size, scale or like", {"size": (4,)}),
    Bad([normal(1, 2, 2, 1), normal(2, 2, 1)], ShapeError, "like has 3 axes"),
    Bad([np.zeros((1, 0, 2, 1))], ShapeError, "has no pixels", {"size": (4,)}),
]
GRADIENT_ERRORS = [
    Bad([normal(1, 3, 3, 1), normal(1, 2, 2, 2)], ShapeError, r"dy has shape .* must have \[1, 3, 3, 2\]"),
    Bad([normal(3, 3, 1), normal(1, 2, 2, 1)], ShapeError, "dy has 3 axes"),
]

_BYTES = [
    Sample([np.arange(60).reshape(1, 4, 5, 3).astype(dtype)], {"scale": (2.0, 1.7)}) for dtype in ("uint8", "int8")
]
spec("resize_nearest", reference=_resize, exact=True, samples=[*_samples([{}]), *_BYTES], errors=ERRORS)
spec(
    "resize_nearest_grad",
    reference=_resize_grad,
    samples=_gradient_samples([{}]),
    errors=GRADIENT_ERRORS,
)
spec("resize_bilinear", reference=_bilinear, samples=_samples(CORNERS), errors=ERRORS)
spec(
    "resize_bilinear_grad",
    reference=_bilinear_grad,
    roundings=16,
    samples=_gradient_samples(CORNERS),
    errors=GRADIENT_ERRORS,
)


def _cubic(d):
    """Keys' kernel with a = -0.75."""
    a, d = -0.75, np.abs(d)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _cubic_matrix(n, out, align_corners):
    """The kernel around each output's place, over an axis whose ends go on for ever."""
    o = np.arange(out)
    at = o * (n - 1) / max(out - 1, 1) if align_corners else (o + 0.5) * n / out - 0.5
    reach = 4
    weights = _cubic(at[:, None] - np.arange(-reach, n + reach)[None])
    m = weights[:, reach : reach + n].copy()
    m[:, 0] += weights[:, :reach].sum(1)
    m[:, -1] += weights[:, reach + n :].sum(1)
    return m


def _bicubic(x, like=None, size=(), scale=(), align_corners=False):
    targets = _target(x.shape, size, scale) if like is None else like.shape[1:3]
    rows, columns = (_cubic_matrix(n, out, align_corners) for n, out in zip(x.shape[1:3], targets, strict=True))
    return np.einsum("ph,qw,nhwc->npqc", rows, columns, x)


def _bicubic_grad(dy, like, align_corners=False):
    pairs = zip(like.shape[1:3], dy.shape[1:3], strict=True)
    rows, columns = (_cubic_matrix(n, out, align_corners) for n, out in pairs)
    return np.einsum("ph,qw,npqc->nhwc", rows, columns, dy)


def _largest(x, like=None, **attrs):
    """A weight is a polynomial of terms up to 6, which cancel: it is off by its terms' roundings, whatever is left."""
    return float(np.abs(x).max()) if x.size else 0.0


spec("resize_bicubic", reference=_bicubic, roundings=16, unit=_largest, samples=_samples(CORNERS), errors=ERRORS)
spec(
    "resize_bicubic_grad",
    reference=_bicubic_grad,
    roundings=16,
    unit=_largest,
    samples=_gradient_samples(CORNERS),
    errors=GRADIENT_ERRORS,
)
