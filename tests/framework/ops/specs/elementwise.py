"""framework/native/ops/elementwise.cc"""

import numpy as np
from scipy import special

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, away_from, integers, normal, spec

INTS = integers(-5, 6, 3, 4)
TRUTH = integers(0, 2, 3, 4).astype(bool)
NEEDS_FLOAT = Bad([INTS], DTypeError, "x is int64 but must be float32 or float64; use cast")
# float32, so that no gradient is asked for at infinities.
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30], np.float32)


def _sigmoid(x):
    return special.expit(x)


def _gelu(x, approximate=False):
    if approximate:
        return x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))  # x (1 + tanh) / 2, without 1 - 1
    return x * special.ndtr(x)


def _mish(x):
    return x * np.tanh(np.logaddexp(0, x))


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _leaky_relu(x, slope=0.01):
    return np.where(x > 0, x, slope * x)


def _hardsigmoid(x):
    return np.clip(x / 6 + 0.5, 0, 1)


def _slope(function, x):
    """Derivative by the complex-free five-point rule: error 1e-12 for smooth functions of scale 1."""
    h = 1e-3
    return (8 * (function(x + h) - function(x - h)) - (function(x + 2 * h) - function(x - 2 * h))) / (12 * h)


def _unary(name, reference, x, **kwargs):
    """Samples on `x`'s domain: a matrix, a length that no vector divides, a scalar, none at all."""
    attrs = kwargs.pop("attrs", {})
    long = np.resize(x, 131)
    samples = [Sample([x], attrs), Sample([long]), Sample([x.reshape(-1)[0]]), Sample([np.zeros((2, 0))])]
    kwargs.setdefault("errors", [NEEDS_FLOAT])
    spec(name, reference=reference, samples=samples + kwargs.pop("more", []), **kwargs)


ANY, BIG = normal(3, 7), normal(3, 7, scale=4.0)
NOT_ZERO = away_from([0.0], ANY)
POSITIVE = np.abs(ANY) + 0.1
UNIT = np.tanh(ANY) * 0.9
KINKS = away_from([-3.0, 0.0, 3.0, 6.0], BIG)

_unary("exp", np.exp, BIG, more=[Sample([SPECIAL])], roundings=2)
_unary("expm1", np.expm1, BIG, roundings=4)
_unary("sqrt", np.sqrt, POSITIVE, roundings=1)
_unary("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, roundings=3)
_unary("reciprocal", lambda x: 1 / x, NOT_ZERO, roundings=2)
_unary("log", np.log, POSITIVE, roundings=3)
_unary("log1p", np.log1p, POSITIVE - 0.5, roundings=3)
_unary("log2", np.log2, POSITIVE, roundings=3)
_unary("sin", np.sin, BIG, roundings=2)
_unary("cos", np.cos, BIG, roundings=2)
_unary("tan", np.tan, UNIT, roundings=3)
_unary("asin", np.arcsin, UNIT, roundings=3)
_unary("acos", np.arccos, UNIT, roundings=3)
_unary("atan", np.arctan, BIG, roundings=2)
_unary("sinh", np.sinh, ANY, roundings=3)
_unary("cosh", np.cosh, ANY, roundings=3)
_unary("tanh", np.tanh, BIG, more=[Sample([SPECIAL])], roundings=4)
_unary("erf", special.erf, BIG, more=[Sample([SPECIAL])], roundings=3)
_unary("sigmoid", _sigmoid, BIG, more=[Sample([SPECIAL])], roundings=4)
_unary("log_sigmoid", lambda x: -np.logaddexp(0, -x), BIG, more=[Sample([np.array([-200.0, 200.0])])], roundings=4)
_unary("softplus", lambda x: np.logaddexp(0, x), BIG, more=[Sample([np.array([-200.0, 200.0])])], roundings=4)
_unary("softsign", lambda x: x / (1 + np.abs(x)), NOT_ZERO, roundings=3)
_unary("selu", lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772), KINKS, roundings=4)
_unary("silu", lambda x: x * _sigmoid(x), BIG, roundings=4)
_unary("mish", _mish, BIG, more=[Sample([np.array([-80.0, 30.0, 200.0])])], roundings=6)
_unary("hardsigmoid", _hardsigmoid, KINKS, roundings=3)
_unary("hardswish", lambda x: x * _hardsigmoid(x), KINKS, roundings=3)
_unary("elu", _elu, KINKS, attrs={"alpha": 0.7}, roundings=4)
_unary(
    "gelu",
    _gelu,
    BIG,
    more=[Sample([BIG], {"approximate": True}), Sample([np.array([-12.0, -5.0, 12.0])])],
    errors=[NEEDS_FLOAT, Bad([ANY], AttributeValueError, "approximate takes", {"approximate": "tanh"})],
    roundings=8,
)
_unary("relu", lambda x: np.maximum(x, 0), KINKS, exact=True, more=[Sample([SPECIAL])])
_unary("relu6", lambda x: np.clip(x, 0, 6), KINKS, exact=True)
_unary("leaky_relu", _leaky_relu, KINKS, attrs={"slope": 0.1}, roundings=2)

NEEDS_NUMBER = Bad([TRUTH], DTypeError, "x is bool but must be float32, float64, int32 or int64; use cast")
_unary("neg", np.negative, ANY, exact=True, more=[Sample([INTS])], errors=[NEEDS_NUMBER])
_unary("abs", np.abs, NOT_ZERO, exact=True, more=[Sample([INTS])], errors=[NEEDS_NUMBER])
_unary("square", np.square, ANY, roundings=1, more=[Sample([INTS.astype(np.int32)])], errors=[NEEDS_NUMBER])
_unary(
    "sign", np.sign, ANY, exact=True, gradient=False, more=[Sample([INTS]), Sample([SPECIAL])], errors=[NEEDS_NUMBER]
)
HALVES = np.concatenate([BIG.reshape(-1), np.arange(-4, 5) / 2, SPECIAL])
for _name, _reference in {"floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc}.items():
    _unary(_name, _reference, HALVES, exact=True, gradient=False)
for _name in ("isnan", "isinf", "isfinite"):
    _unary(_name, getattr(np, _name), np.concatenate([HALVES, SPECIAL]), gradient=False)
spec(
    "logical_not",
    reference=np.logical_not,
    gradient=False,
    samples=[Sample([TRUTH]), Sample([np.array(True)]), Sample([np.zeros(0, bool)])],
    errors=[Bad([ANY], DTypeError, r"x is float32 but must be bool; compare it first \(x != 0\)")],
)


def _pairs(a, b):
    """Every way two operands broadcast: equal, scalar, last axis (short and long), first axis, crossed, empty."""
    return [
        Sample([a(3, 4), b(3, 4)]),
        Sample([a(5, 3), b()]),
        Sample([a(), b(2, 65)]),
        Sample([a(2, 9, 3), b(3)]),
        Sample([a(3), b(700, 3)]),
        Sample([a(2, 200), b(200)]),
        Sample([a(2, 3, 4), b(3, 1)]),
        Sample([a(4, 1, 3), b(2, 1)]),
        Sample([a(2, 1, 3, 1), b(1, 4, 1, 5)]),
        Sample([a(0, 3), b(3)]),
        Sample([a(1, 1), b(1)]),
    ]


def _mismatch(*rest):
    return Bad(
        [normal(2, 3), normal(2, 4), *rest],
        ShapeError,
        r"a of shape \[2, 3\] and b of shape \[2, 4\] do not broadcast: axis -1 has 3 and 4",
    )


def _ints(*shape):
    return integers(-5, 6, *shape)


def _divisors(*shape):
    return integers(0, 4, *shape, seed=1) - 2  # zero too


def _ordinary(*shape):
    return normal(*shape, seed=1)


def _nonzero(*shape):
    return away_from([0.0], normal(*shape, seed=2), margin=0.2)


def _binary(name, reference, a=normal, b=_ordinary, ints=True, **kwargs):
    samples = _pairs(a, b)
    if ints:
        samples += [
            Sample([_ints(4, 3), _divisors(4, 3)]),
            Sample([_ints(4, 3).astype(np.int32), _divisors(3).astype(np.int32)]),
        ]
    spec(name, reference=reference, samples=samples, errors=[_mismatch()], **kwargs)


def _floor_div(a, b):
    with np.errstate(divide="ignore"):
        return np.floor_divide(a, b)


def _mod(a, b):
    with np.errstate(divide="ignore"):
        return np.mod(a, b)


def _far(*shape):
    """Second operands that differ from `normal`'s by enough for the kink of maximum not to matter."""
    return normal(*shape) + np.where(normal(*shape, seed=3) > 0, 1.0, -1.0)


_binary("add", np.add, roundings=1)
_binary("sub", np.subtract, roundings=1)
_binary("mul", np.multiply, roundings=1)
_binary("div", np.divide, b=_nonzero, ints=False, roundings=1)
_binary("floor_div", _floor_div, b=_nonzero, gradient=False, exact=True)
_binary("mod", _mod, a=lambda *s: normal(*s) + 0.03, b=lambda *s: np.round(_nonzero(*s) * 4) + 6.3, roundings=2)
_binary("pow", np.power, a=lambda *s: np.abs(normal(*s)) + 0.3, ints=False, roundings=2)
_binary("maximum", np.maximum, b=_far, exact=True)
_binary("minimum", np.minimum, b=_far, exact=True)
_binary("atan2", np.arctan2, b=_nonzero, ints=False, roundings=2)
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    _types = [Sample([INTS.astype(t), INTS.T.reshape(3, 4).astype(t)]) for t in ("int8", "uint8", "int32", "bool")]
    spec(
        _name,
        reference=getattr(np, _name),
        gradient=False,
        samples=[
            *_pairs(lambda *s: _ints(*s) / 2, lambda *s: _ints(*s) / 4),
            Sample([SPECIAL, SPECIAL[::-1].copy()]),
            Sample([SPECIAL, SPECIAL[0]]),
            *_types,
        ],
        errors=[_mismatch()],
    )
for _name in ("logical_and", "logical_or", "logical_xor"):
    spec(
        _name,
        reference=getattr(np, _name),
        gradient=False,
        samples=_pairs(lambda *s: integers(0, 2, *s) > 0, lambda *s: integers(0, 2, *s, seed=1) > 0),
        errors=[Bad([INTS, INTS], DTypeError, "a is int64 but must be bool; compare it first")],
    )


def _grad(name, second, reference, **kwargs):
    spec(
        name,
        reference=reference,
        samples=[Sample([normal(*s, seed=5), second(*s)]) for s in ((3, 7), (131,), (), (0, 2))]
        + kwargs.pop("more", []),
        errors=[Bad([normal(2), normal(3)], ShapeError, r"dy has shape \[2\] but must have \[3\]")],
        **kwargs,
    )


def _kinked(*shape):
    return away_from([-3.0, 0.0, 3.0, 6.0], normal(*shape, scale=4.0))


_grad("relu_grad", _kinked, lambda dy, y: np.where(y > 0, dy, 0), exact=True)
_grad("relu6_grad", _kinked, lambda dy, y: np.where((y > 0) & (y < 6), dy, 0), exact=True)
_grad("leaky_relu_grad", _kinked, lambda dy, x, slope=0.01: np.where(x > 0, dy, slope * dy))
_grad("sigmoid_grad", normal, lambda dy, y: dy * y * (1 - y))
_grad("tanh_grad", normal, lambda dy, y: dy * (1 - y * y))
_grad("silu_grad", normal, lambda dy, x: dy * _slope(lambda v: v * _sigmoid(v), x), dtypes=["float32"])
_grad(
    "gelu_grad",
    normal,
    lambda dy, x, approximate=False: dy * _slope(lambda v: _gelu(v, approximate), x),
    dtypes=["float32"],
    more=[Sample([normal(4), normal(4, seed=2)], {"approximate": True})],
)

spec(
    "where",
    reference=np.where,
    exact=True,
    samples=[Sample([s.inputs[0] > 0, *s.inputs]) for s in _pairs(normal, _ordinary)]
    + [
        Sample([TRUTH, normal(3, 4), np.array(0.0)]),
        Sample([TRUTH, np.array(0.0), normal(3, 4)]),
        Sample([np.array([True, False]), normal(3, 1, 1), normal(4, 1)]),
        *[Sample([TRUTH, INTS.astype(t), (INTS.T.reshape(3, 4) + 1).astype(t)]) for t in ("int8", "float16", "bool")],
    ],
    errors=[
        Bad([INTS, ANY, ANY], DTypeError, "cond is int64 but must be bool"),
        Bad([TRUTH, ANY, ANY], ShapeError, r"cond of shape \[3, 4\] and a of shape \[3, 7\] do not broadcast"),
    ],
)
spec(
    "clip",
    reference=lambda x, min, max: np.clip(x, min, max).astype(x.dtype),
    exact=True,
    samples=[
        Sample([away_from([-1.0, 1.5], BIG)], {"min": -1.0, "max": 1.5}),
        Sample([SPECIAL], {"min": -2, "max": 2}),
        Sample([away_from([-0.5, 0.25], BIG)], {"min": -0.5, "max": 0.25}),
        Sample([INTS], {"min": -2, "max": 1e30}),
        Sample([INTS.astype(np.int32)], {"min": float("-inf"), "max": 3}),
    ],
    errors=[
        Bad([ANY], AttributeValueError, "min is 2 but must not exceed max, 1", {"min": 2, "max": 1}),
        Bad([ANY], AttributeValueError, "attribute 'max' is missing", {"min": 2}),
    ],
)
spec(
    "lerp",
    reference=lambda a, b, weight: a + weight * (b - a),
    roundings=3,
    samples=[
        Sample([normal(3, 4), normal(3, 4, seed=1), np.array(0.3)]),
        Sample([normal(3, 4), normal(4, seed=1), normal(3, 1, seed=2)]),
        Sample([normal(), normal(), normal(70, seed=2)]),
    ],
    errors=[_mismatch(np.array(0.5))],
)


def _cast(x, dtype):
    if x.dtype.kind != "f" or np.dtype(dtype).kind not in "iu":
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    whole = [min(max(int(v), limits.min), limits.max) if np.isfinite(v) else 0 for v in np.nan_to_num(x).reshape(-1)]
    return np.array(whole, dtype).reshape(x.shape)


TYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")
spec(
    "cast",
    reference=_cast,
    exact=True,
    samples=[Sample([normal(5, 7)], {"dtype": t}) for t in ("float32", "float64")]
    + [Sample([np.array([0.0, 1.9, -1.9, 100.7, 300.0, -1e30, 1e30, np.nan])], {"dtype": t}) for t in TYPES[3:]]
    + [Sample([integers(0, 100, 9).astype(t)], {"dtype": u}) for t in TYPES for u in TYPES]
    + [Sample([integers(-300, 300, 33).astype("int32")], {"dtype": u}) for u in ("int8", "uint8", "float16")],
    errors=[Bad([ANY], DTypeError, "'complex64' is not a type of the core", {"dtype": "complex64"})],
)
spec(
    "broadcast_to",
    reference=lambda x, shape: np.broadcast_to(x, shape),
    exact=True,
    samples=[
        Sample([normal(3, 1)], {"shape": (2, 3, 4)}),
        Sample([normal(4)], {"shape": (3, 4)}),
        Sample([normal()], {"shape": (5,)}),
        Sample([integers(0, 5, 2, 1).astype("int8")], {"shape": (2, 0)}),
        Sample([TRUTH], {"shape": (3, 4)}),
    ],
    errors=[Bad([normal(3)], ShapeError, r"x of shape \[3\] does not broadcast to \[4, 2\]", {"shape": (4, 2)})],
)
spec(
    "broadcast_like",
    reference=lambda x, like: np.broadcast_to(x, like.shape),
    exact=True,
    samples=[
        Sample([normal(3, 1), normal(2, 3, 4)]),
        Sample([normal(4), integers(0, 3, 4)]),
        Sample([normal(1), normal(0, 2)]),
    ],
    errors=[Bad([normal(2, 3), normal(3)], ShapeError, r"does not broadcast to like's shape \[3\]")],
)


def _sum_to(x, like):
    lead = x.ndim - like.ndim
    axes = [i for i in range(x.ndim) if i < lead or (like.shape[i - lead] == 1 and x.shape[i] != 1)]
    return x.sum(tuple(axes), dtype=x.dtype).reshape(like.shape)


spec(
    "sum_to",
    reference=_sum_to,
    roundings=24,
    samples=[
        Sample([normal(2, 3, 4), normal(3, 1)]),
        Sample([normal(2, 3), normal(2, 3)]),
        Sample([normal(700, 5), normal(5)]),
        Sample([normal(2, 3, 4), normal(1, 3, 1)]),
        Sample([normal(2, 3, 4, 2), integers(0, 2, 2, 1, 4, 1)]),
        Sample([normal(0, 3), normal(3)]),
        Sample([integers(-4, 5, 6, 3).astype("int32"), normal()]),
    ],
    errors=[
        Bad([normal(3), normal(2, 3)], ShapeError, r"like of shape \[2, 3\] does not broadcast to x's shape \[3\]")
    ],
)

spec(
    "prelu",
    reference=lambda x, slope: np.where(x > 0, x, slope * x),
    samples=[
        Sample([away_from([0.0], normal(3, 4)), normal(4, seed=1)]),
        Sample([away_from([0.0], normal(2, 5, 3)), normal(1, seed=1)]),
        Sample([away_from([0.0], normal(70)), normal(70, seed=1)]),
        Sample([np.zeros((0, 3)), normal(3)]),
    ],
    errors=[Bad([normal(3, 4), normal(3)], ShapeError, "x of shape .* and slope of shape .* do not broadcast")],
)
