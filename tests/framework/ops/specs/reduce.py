"""framework/native/ops/reduce.cc"""

import numpy as np
from scipy import special

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, away_from, integers, normal, spec

# Roundings of a sum, whatever its length: 11 joins in a tree, at most 7 stragglers, one at the end; see cpu/reduce.h.
SUM = 20


def _axes(axes):
    return tuple(axes) or None


def _samples(make):
    """Every path of the engine: all, rows, columns (narrow, wide, tiled), middle axes, gaps; one and many segments."""
    return [
        Sample([make(3, 4)]),
        Sample([make()]),
        Sample([make(5, 7)], {"axes": (1,)}),
        Sample([make(5, 7)], {"axes": (0,), "keepdims": True}),
        Sample([make(2, 3, 4, 5)], {"axes": (0, 2)}),
        Sample([make(2, 3, 4, 5)], {"axes": (1, -1), "keepdims": True}),
        Sample([make(2, 9, 3)], {"axes": (0, 1)}),
        Sample([make(2, 1, 3, 1)], {"axes": (1, 2)}),
    ]


def _long(make):
    return [
        Sample([make(50_003)]),
        Sample([make(40_000, 3)], {"axes": (0,)}),
        Sample([make(2100, 70)], {"axes": (0,)}),
        Sample([make(9, 600)], {"axes": (0,)}),
        Sample([make(3, 2100, 3)], {"axes": (0, 2)}),
        Sample([make(70, 3, 300)], {"axes": (0, 2)}),
        Sample([make(4, 2055)], {"axes": (1,)}),
    ]


EMPTY = [Sample([np.zeros((3, 0))], {"axes": (1,)}), Sample([np.zeros((0, 3))], {"axes": (1,)})]
BAD_AXES = [
    Bad([normal(2, 3)], AttributeValueError, r"axes is 2 but must lie in \[-2, 1\] for 2 axes", {"axes": (2,)}),
    Bad([normal(2, 3)], AttributeValueError, "axes names axis -1 twice", {"axes": (1, -1)}),
]
NEEDS_FLOAT = Bad([integers(0, 3, 4)], DTypeError, "x is int64 but must be float32 or float64; use cast")


def _small_ints(*shape):
    return integers(-3, 4, *shape)


def _truth(*shape):
    return integers(0, 2, *shape) > 0


def _precise(name):
    """NumPy's own sums of columns are sequential: they need more digits to serve as a reference."""

    def reference(x, axes=(), keepdims=False):
        wide = x.astype(np.longdouble) if x.dtype.kind == "f" else x
        y = getattr(np, name)(wide, _axes(axes), keepdims=keepdims)
        return y.astype(np.float64) if x.dtype.kind == "f" else y

    return reference


def _reduction(name):
    return lambda x, axes=(), keepdims=False: getattr(np, name)(x, _axes(axes), keepdims=keepdims)


spec(
    "sum",
    reference=_precise("sum"),
    roundings=SUM,
    samples=_samples(normal)
    + EMPTY
    + [Sample(s.inputs, s.attrs) for s in _long(lambda *s: normal(*s) / np.sqrt(max(s)))]
    + [Sample([_small_ints(40, 30).astype(t)], {"axes": (0,)}) for t in ("int8", "uint8", "int32", "int64", "bool")]
    + [Sample([_small_ints(40, 30).astype("int8")])],
    errors=BAD_AXES,
)
spec(
    "mean",
    reference=_precise("mean"),
    roundings=SUM,
    samples=_samples(normal) + EMPTY[1:] + _long(normal),
    errors=[*BAD_AXES, NEEDS_FLOAT],
)


def _apart(*shape):
    """Distinct numbers at least 0.5 apart, so that a small step changes no maximum."""
    n = int(np.prod(shape))
    return (np.random.default_rng(n).permutation(n) * 0.5 - n / 4).reshape(shape)


WITH_NAN = np.where(np.arange(300).reshape(3, 100) == 250, np.nan, normal(3, 100)).astype(np.float32)
for _name in ("max", "min"):
    spec(
        _name,
        reference=_reduction(_name),
        exact=True,
        samples=[Sample(s.inputs, s.attrs) for s in _samples(_apart) + _long(_apart)]
        + [Sample([_small_ints(40, 30).astype(t)], {"axes": (0,)}) for t in ("int8", "uint8", "int32", "int64")]
        + [
            Sample([np.zeros((0, 3))], {"axes": (1,)}),
            Sample([np.full(2, -np.inf, np.float32)]),
            Sample([WITH_NAN], {"axes": (1,)}),
        ],
        errors=[
            *BAD_AXES,
            Bad([np.zeros((2, 0))], ShapeError, r"x of shape \[2, 0\] has no elements along axis 1", {"axes": (1,)}),
            Bad([np.zeros(2, bool)], DTypeError, "x is bool but must be float32"),
        ],
    )
spec(
    "prod",
    reference=_reduction("prod"),
    roundings=32,
    samples=_samples(lambda *s: away_from([0.0], normal(*s), margin=0.2))
    + EMPTY
    + [Sample([np.exp(normal(5000, scale=0.02))]), Sample([_small_ints(4, 3).astype("int32")], {"axes": (0,)})],
    errors=[*BAD_AXES, Bad([np.zeros(2, np.int8)], DTypeError, "x is int8 but must be float32, float64, int32")],
)
for _name in ("any", "all"):
    spec(
        _name,
        reference=_reduction(_name),
        gradient=False,
        samples=[Sample(s.inputs, s.attrs) for s in _samples(_truth) + _long(_truth)]
        + [Sample([x]) for x in (np.zeros(3000, bool), np.ones(3000, bool), np.zeros(0, bool))],
        errors=[
            Bad([_truth(2)], AttributeValueError, r"axes is 2 but must lie in \[-1, 0\] for 1 axes", {"axes": (2,)}),
            Bad([normal(3)], DTypeError, "x is float32 but must be bool; compare it first"),
        ],
    )
spec(
    "logsumexp",
    reference=lambda x, axes=(), keepdims=False: special.logsumexp(x, _axes(axes), keepdims=keepdims),
    roundings=SUM,
    samples=_samples(normal)
    + _long(normal)
    + [Sample([np.array([1000.0, 999.0, -1000.0])])]
    + [Sample([normal(0, 3)], {"axes": (1,)})],
    errors=[*BAD_AXES, NEEDS_FLOAT],
)


def _argument(function):
    return lambda x, axis, keepdims=False: function(x, axis, keepdims=keepdims)


for _name, _function in {"argmax": np.argmax, "argmin": np.argmin}.items():
    spec(
        _name,
        reference=_argument(_function),
        gradient=False,
        samples=[
            Sample([normal(3, 50)], {"axis": 1}),
            Sample([normal(3, 5, 300)], {"axis": 1, "keepdims": True}),
            Sample([_small_ints(60, 2).astype("int8")], {"axis": 0}),  # the first of equals
            Sample([np.array([[1.0, np.nan, 3.0, np.nan]])], {"axis": -1}),
            Sample([np.zeros((0, 3))], {"axis": 1}),
        ],
        errors=[
            Bad([normal(2)], AttributeValueError, "axis is 1 but must lie in", {"axis": 1}),
            Bad([np.zeros((2, 0))], ShapeError, "no elements along axis 1", {"axis": 1}),
        ],
    )


def _cumsum(x, axis, reverse=False):
    return np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis, dtype=x.dtype)


spec(
    "cumsum",
    reference=_cumsum,
    roundings=8,
    samples=[
        Sample([normal(3, 40)], {"axis": 1}),
        Sample([normal(4, 3, 300)], {"axis": 1, "reverse": True}),
        Sample([normal(6)], {"axis": -1}),
        Sample([integers(-4, 5, 7, 2).astype("int32")], {"axis": 0}),
        Sample([np.zeros((0, 2))], {"axis": 0}),
    ],
    errors=[Bad([np.zeros(2, bool)], DTypeError, "x is bool but must be float32", {"axis": 0})],
)


def _unreduce(x, like, axes=(), keepdims=False, average=False):
    if not keepdims:
        x = np.expand_dims(x, tuple(axes) or tuple(range(like.ndim)))
    y = np.broadcast_to(x, like.shape)
    return y * (x.size / y.size) if average and y.size else y


spec(
    "unreduce",
    reference=_unreduce,
    roundings=2,
    samples=[
        Sample([normal(3), normal(3, 4)], {"axes": (1,)}),
        Sample([normal(4), normal(3, 4)], {"axes": (0,), "average": True}),
        Sample([normal(), normal(2, 3)], {"average": True}),
        Sample([normal(2, 1, 4, 1), integers(0, 3, 2, 3, 4, 5)], {"axes": (1, 3), "keepdims": True}),
        Sample([normal(2), np.zeros((2, 0))], {"axes": (-1,)}),
    ],
    errors=[Bad([normal(4), normal(3, 4)], ShapeError, r"x has shape \[4\] but must have \[3\]", {"axes": (1,)})],
)


def _cumprod(x, axis, reverse=False):
    y = np.flip(np.cumprod(np.flip(x, axis), axis), axis) if reverse else np.cumprod(x, axis)
    return y.astype(x.dtype)


def _cumprod_grad(dy, x, axis, reverse=False):
    """Each product of the others on its own: d y_j / d x_i is the product of all x_k up to j but x_i."""
    x, dy = (np.moveaxis(np.flip(t, axis) if reverse else t, axis, -1) for t in (x, dy))
    dx = np.zeros_like(x)
    for i in range(x.shape[-1]):
        for j in range(i, x.shape[-1]):
            dx[..., i] += dy[..., j] * np.delete(x[..., : j + 1], i, -1).prod(-1)
    dx = np.moveaxis(dx, -1, axis)
    return np.flip(dx, axis) if reverse else dx


ZEROS = np.array([[2.0, 0.0, 3.0, 0.5], [1.0, 2.0, 0.0, 0.0]])
spec(
    "cumprod",
    reference=_cumprod,
    roundings=8,
    samples=[
        Sample([normal(3, 4)], {"axis": 1}),
        Sample([normal(5, 3, 2)], {"axis": 0, "reverse": True}),
        Sample([normal(2, 4, 300)], {"axis": -2}),
        Sample([np.zeros((2, 0))], {"axis": 1}),
        Sample([integers(-2, 3, 4, 3)], {"axis": 0}),
        Sample([ZEROS], {"axis": 1}),
    ],
    errors=[
        Bad([normal(3)], AttributeValueError, r"axis is 1 but must lie in \[-1, 0\]", {"axis": 1}),
        Bad([integers(0, 2, 3).astype(np.uint8)], DTypeError, "x is uint8 but must be", {"axis": 0}),
    ],
)
spec(
    "cumprod_grad",
    reference=_cumprod_grad,
    samples=[
        Sample([normal(3, 4, seed=1), normal(3, 4)], {"axis": 1}),
        Sample([normal(4, 3, 2, seed=1), normal(4, 3, 2)], {"axis": 0, "reverse": True}),
        Sample([normal(3, 280, seed=1), normal(3, 280)], {"axis": 0}),
        Sample([normal(2, 4, seed=1), ZEROS], {"axis": 1}),
        Sample([normal(2, 4, seed=1), ZEROS], {"axis": 0, "reverse": True}),
    ],
    errors=[Bad([normal(3), normal(4)], ShapeError, r"dy has shape \[3\] but must have \[4\]", {"axis": 0})],
)


def _linear_scan(a, b, axis, reverse=False):
    a, b = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (a, b))
    y = np.zeros_like(b)
    for i in range(len(b)):
        y[i] = a[i] * y[i - 1] + b[i] if i else b[i]
    return np.moveaxis(y[:: -1 if reverse else 1], 0, axis)


spec(
    "linear_scan",
    reference=_linear_scan,
    roundings=8,
    samples=[
        Sample([normal(3, 4), normal(3, 4, seed=1)], {"axis": 1}),
        Sample([normal(5, 3, 2), normal(5, 3, 2, seed=1)], {"axis": 0, "reverse": True}),
        Sample([ZEROS, normal(2, 4, seed=1)], {"axis": -1}),
        Sample([normal(2, 4, 300), normal(2, 4, 300, seed=1)], {"axis": -2}),
        Sample([np.zeros((2, 0)), np.zeros((2, 0))], {"axis": 1}),
    ],
    errors=[
        Bad([normal(3), normal(4)], ShapeError, r"b has shape \[4\] but must have \[3\]", {"axis": 0}),
        Bad([normal(3), normal(3)], AttributeValueError, r"axis is 1 but must lie in \[-1, 0\]", {"axis": 1}),
    ],
)


def _variance_samples():
    keep = [*_samples(normal)[:1], *_samples(normal)[2:], *_long(normal)]  # a number varies by nothing
    attrs = [{"correction": 1.0}, {}, {"correction": 0.5}]
    return [Sample(s.inputs, s.attrs | attrs[i % 3]) for i, s in enumerate(keep)]


def _var(x, axes=(), keepdims=False, correction=0.0):
    count = x.size if not axes else np.prod([x.shape[a] for a in axes])
    mean = x.mean(_axes(axes), keepdims=True)
    return ((x - mean) ** 2).sum(_axes(axes), keepdims=keepdims) / (count - correction)


def _var_grad(dy, x, axes=(), keepdims=False, correction=0.0):
    wide = dy if keepdims or not axes else np.expand_dims(dy, tuple(a % x.ndim for a in axes))
    count = x.size if not axes else np.prod([x.shape[a] for a in axes])
    return 2 * wide * (x - x.mean(_axes(axes), keepdims=True)) / (count - correction)


VARIANCE_ERRORS = [
    *BAD_AXES,
    NEEDS_FLOAT,
    Bad([normal(3)], AttributeValueError, "correction is -1 but must be 0 or more", {"correction": -1.0}),
]
spec("var", reference=_var, roundings=SUM + 8, samples=_variance_samples(), errors=VARIANCE_ERRORS)
spec(
    "std",
    reference=lambda x, **attrs: np.sqrt(_var(x, **attrs)),
    roundings=SUM + 8,
    samples=_variance_samples(),
    errors=VARIANCE_ERRORS,
)
spec(
    "var_grad",
    reference=_var_grad,
    roundings=SUM + 8,
    samples=[Sample([normal(*np.shape(_var(*s.inputs, **s.attrs)), seed=4), *s.inputs], s.attrs)
             for s in _variance_samples()],
    errors=[Bad([normal(3), normal(2, 4)], ShapeError, r"dy has shape \[3\] but must have \[2\]", {"axes": (1,)})],
)  # fmt: skip
