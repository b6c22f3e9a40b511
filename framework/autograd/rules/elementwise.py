"""Gradients of framework/native/ops/elementwise.cc."""

import math
from typing import Any

from framework import ops
from framework.autograd.rule_table import flat, no_gradient, rule
from framework.ops import broadcast_like, cast, internal, square, where
from framework.ops.internal import sum_to

rule("neg", x=lambda dy: -dy)
rule("abs", x=lambda dy, x: dy * ops.sign(x))
rule("sqrt", x=lambda dy, y: 0.5 * dy / y)
rule("rsqrt", x=lambda dy, y: -0.5 * dy * y * square(y))
rule("reciprocal", x=lambda dy, y: -dy * square(y))
rule("square", x=lambda dy, x: 2.0 * dy * x)
rule("exp", x=lambda dy, y: dy * y)
rule("expm1", x=lambda dy, y: dy * (y + 1.0))
rule("log", x=lambda dy, x: dy / x)
rule("log1p", x=lambda dy, x: dy / (x + 1.0))
rule("log2", x=lambda dy, x: dy / (x * math.log(2.0)))
rule("sin", x=lambda dy, x: dy * ops.cos(x))
rule("cos", x=lambda dy, x: -dy * ops.sin(x))
rule("tan", x=lambda dy, y: dy * (square(y) + 1.0))
rule("asin", x=lambda dy, x: dy * ops.rsqrt(1.0 - square(x)))
rule("acos", x=lambda dy, x: -dy * ops.rsqrt(1.0 - square(x)))
rule("atan", x=lambda dy, x: dy / (square(x) + 1.0))
rule("sinh", x=lambda dy, x: dy * ops.cosh(x))
rule("cosh", x=lambda dy, x: dy * ops.sinh(x))
rule("tanh", x=lambda dy, y: internal.tanh_grad(dy, y))
rule("erf", x=lambda dy, x: dy * (2.0 / math.sqrt(math.pi)) * ops.exp(-square(x)))
rule("sigmoid", x=lambda dy, y: internal.sigmoid_grad(dy, y))
rule("log_sigmoid", x=lambda dy, x: dy * ops.sigmoid(-x))
rule("softplus", x=lambda dy, x: dy * ops.sigmoid(x))
rule("softsign", x=lambda dy, x: dy / square(ops.abs(x) + 1.0))
rule("relu", x=lambda dy, y: internal.relu_grad(dy, y))
rule("relu6", x=lambda dy, y: internal.relu6_grad(dy, y))
rule("leaky_relu", x=lambda dy, x, slope: internal.leaky_relu_grad(dy, x, slope=slope))
rule(
    "prelu",
    x=lambda dy, x, slope: sum_to(where(x > 0.0, dy, dy * slope), x),
    slope=lambda dy, x, slope: sum_to(where(x > 0.0, 0.0, dy * x), slope),
)
rule("elu", x=lambda dy, x, y, alpha: dy * where(x > 0.0, 1.0, y + alpha))
rule("selu", x=lambda dy, x, y: dy * where(x > 0.0, _SELU_SCALE, y + _SELU_SCALE * _SELU_ALPHA))
rule("gelu", x=lambda dy, x, approximate: internal.gelu_grad(dy, x, approximate=approximate))
rule("silu", x=lambda dy, x: internal.silu_grad(dy, x))
rule("mish", x=lambda dy, x: dy * _mish_slope(x))
rule("hardsigmoid", x=lambda dy, x: where((x > -3.0) & (x < 3.0), dy / 6.0, 0.0))
rule("hardswish", x=lambda dy, x: where(x > 3.0, dy, where(x > -3.0, dy * (x / 3.0 + 0.5), 0.0)))

rule("relu_grad", dy=lambda ddx, y: internal.relu_grad(ddx, y))
rule("relu6_grad", dy=lambda ddx, y: internal.relu6_grad(ddx, y))
rule("leaky_relu_grad", dy=lambda ddx, x, slope: internal.leaky_relu_grad(ddx, x, slope=slope))
_STEP = "only its sign, or on which side of a kink it lies, matters"
flat("relu_grad", y=_STEP)
flat("relu6_grad", y=_STEP)
flat("leaky_relu_grad", x=_STEP)
rule("sigmoid_grad", dy=lambda ddx, y: internal.sigmoid_grad(ddx, y), y=lambda ddx, dy, y: ddx * dy * (1.0 - 2.0 * y))
rule("tanh_grad", dy=lambda ddx, y: internal.tanh_grad(ddx, y), y=lambda ddx, dy, y: ddx * dy * (-2.0 * y))
rule("silu_grad", dy=lambda ddx, x: internal.silu_grad(ddx, x), x=lambda ddx, dy, x: ddx * dy * _silu_curvature(x))
rule(
    "gelu_grad",
    dy=lambda ddx, x, approximate: internal.gelu_grad(ddx, x, approximate=approximate),
    x=lambda ddx, dy, x, approximate: ddx * dy * (_gelu_tanh_curvature(x) if approximate else _gelu_curvature(x)),
)

rule("add", a=lambda dy, a: sum_to(dy, a), b=lambda dy, b: sum_to(dy, b))
rule("sub", a=lambda dy, a: sum_to(dy, a), b=lambda dy, b: -sum_to(dy, b))
rule("mul", a=lambda dy, a, b: sum_to(dy * b, a), b=lambda dy, a, b: sum_to(dy * a, b))
rule("div", a=lambda dy, a, b: sum_to(dy / b, a), b=lambda dy, y, b: -sum_to(dy * y / b, b))
rule("mod", a=lambda dy, a: sum_to(dy, a), b=lambda dy, a, b: -sum_to(dy * ops.floor_div(a, b), b))
rule(
    "pow",
    a=lambda dy, a, b: sum_to(where(b == 0.0, 0.0, dy * b * ops.pow(a, b - 1.0)), a),
    b=lambda dy, a, y, b: sum_to(dy * y * ops.log(where(a > 0.0, a, 1.0)), b),
)
rule("maximum", a=lambda dy, a, b: sum_to(dy * _share(a, b), a), b=lambda dy, a, b: sum_to(dy * _share(b, a), b))
rule("minimum", a=lambda dy, a, b: sum_to(dy * _share(b, a), a), b=lambda dy, a, b: sum_to(dy * _share(a, b), b))
rule(
    "atan2",
    a=lambda dy, a, b: sum_to(dy * _over_square(b, a, b), a),
    b=lambda dy, a, b: -sum_to(dy * _over_square(a, a, b), b),
)
rule(
    "where",
    a=lambda dy, cond, a: sum_to(where(cond, dy, 0.0), a),
    b=lambda dy, cond, b: sum_to(where(cond, 0.0, dy), b),
)
rule("clip", x=lambda dy, x, min, max: where((x >= min) & (x <= max), dy, 0.0))
rule(
    "lerp",
    a=lambda dy, a, weight: sum_to(dy * (1.0 - weight), a),
    b=lambda dy, b, weight: sum_to(dy * weight, b),
    weight=lambda dy, a, b, weight: sum_to(dy * (b - a), weight),
)
rule("cast", x=lambda dy, x, elidable: cast(dy, dtype=x.dtype, elidable=elidable))
rule("broadcast_to", x=lambda dy, x: sum_to(dy, x))
rule("broadcast_like", x=lambda dy, x: sum_to(dy, x))
rule("sum_to", x=lambda dy, x: broadcast_like(dy, x))

no_gradient("its derivative is 0 wherever it exists", "sign", "floor", "ceil", "round", "trunc", "floor_div")
no_gradient("its result is a truth value", "isnan", "isinf", "isfinite", "logical_not")
no_gradient("its result is a truth value", "logical_and", "logical_or", "logical_xor", "equal", "not_equal")
no_gradient("its result is a truth value", "less", "less_equal", "greater", "greater_equal")

_SELU_SCALE: float = 1.0507009873554805
_SELU_ALPHA: float = 1.6732632423543772
_GELU_SCALE, _GELU_CUBIC = 2.0 * math.sqrt(2.0 / math.pi), 0.044715


def _share(a: Any, b: Any) -> Any:
    """The part of max(a, b)'s gradient that goes to a: 1 where a is larger, half where both are equal."""
    return cast(a > b, dtype=a.dtype) + 0.5 * cast(a == b, dtype=a.dtype)


def _over_square(x: Any, a: Any, b: Any) -> Any:
    """x / (a^2 + b^2), and 0 at the origin, where an angle has no slope."""
    square_sum = square(a) + square(b)
    return where(square_sum == 0.0, 0.0, x / where(square_sum == 0.0, 1.0, square_sum))


def _mish_slope(x: Any) -> Any:
    t = ops.tanh(ops.softplus(x))
    return t + x * (1.0 - square(t)) * ops.sigmoid(x)


def _silu_curvature(x: Any) -> Any:
    s = ops.sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


def _gelu_curvature(x: Any) -> Any:
    """The derivative of P(x) + x p(x), p the normal density: p(x) (2 - x^2)."""
    return (1.0 / math.sqrt(2.0 * math.pi)) * ops.exp(-0.5 * square(x)) * (2.0 - square(x))


def _gelu_tanh_curvature(x: Any) -> Any:
    """The second derivative of x sigmoid(u), u = scale (x + cubic x^3)."""
    x2 = square(x)
    u1 = _GELU_SCALE * (1.0 + 3.0 * _GELU_CUBIC * x2)
    s = ops.sigmoid(_GELU_SCALE * x * (1.0 + _GELU_CUBIC * x2))
    return s * (1.0 - s) * (2.0 * u1 + x * ((1.0 - 2.0 * s) * square(u1) + _GELU_SCALE * 6.0 * _GELU_CUBIC * x))
