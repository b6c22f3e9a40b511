"""Element-wise operators: the expressions of `native/ops/elementwise_table.inc` in JAX.

Half types are computed in float32 and rounded once, as the native kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, jnp_type, rule, wide


def hardsigmoid(x: Array) -> Array:
    """min(max(x / 6 + 1/2, 0), 1)."""
    return jnp.clip(x / 6 + 0.5, 0, 1)


def gelu(x: Array, approximate: bool) -> Array:
    """x times the normal distribution's integral up to x, or its approximation by a tanh."""
    if approximate:  # 0.5 (1 + tanh(u)) is sigmoid(2 u), without the cancellation below 0
        return x * jax.nn.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


def activated(x: Array, activation: str, slope: float) -> Array:
    """The activations that convolutions, products and norms may end with."""
    return ACTIVATIONS[activation](x, slope)


def _guarded(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Division of whole numbers by 0 gives 0; that of the least number by -1 wraps around."""

    def safe(a: Array, b: Array) -> Array:
        if jnp.issubdtype(a.dtype, jnp.floating):
            return function(a, b)
        return jnp.where(b == 0, 0, function(a, jnp.where(b == 0, 1, b))).astype(a.dtype)

    return safe


def _logical(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *xs: function(*(x.astype(bool) for x in xs))


def _larger(a: Array, b: Array) -> Array:
    return jnp.where((a > b) | (a != a), a, b)


def _smaller(a: Array, b: Array) -> Array:
    return jnp.where((a < b) | (a != a), a, b)


def _silu_grad(dy: Array, x: Array) -> Array:
    s = jax.nn.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

SIMPLE: dict[str, Callable[..., Array]] = {
    "neg": lambda x: -x,
    "abs": jnp.abs,
    "sign": lambda x: jnp.where(x > 0, 1, jnp.where(x < 0, -1, x)).astype(x.dtype),
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.round,
    "trunc": jnp.trunc,
    "sqrt": jnp.sqrt,
    "rsqrt": lambda x: 1 / jnp.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "tanh": jnp.tanh,
    "erf": lax.erf,
    "sigmoid": jax.nn.sigmoid,
    "log_sigmoid": lambda x: jnp.minimum(x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x))),
    "softplus": lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))),
    "softsign": lambda x: x / (1 + jnp.abs(x)),
    "relu": lambda x: jnp.where(x < 0, 0, x).astype(x.dtype),
    "relu6": lambda x: jnp.where(x < 0, 0, jnp.where(x > 6, 6, x)).astype(x.dtype),
    "selu": lambda x: jnp.where(x > 0, _SELU_SCALE * x, _SELU_SCALE * _SELU_ALPHA * jnp.expm1(x)),
    "silu": lambda x: x * jax.nn.sigmoid(x),
    "mish": lambda x: x * jnp.tanh(jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: x * hardsigmoid(x),
    "logical_not": _logical(jnp.logical_not),
    "isnan": jnp.isnan,
    "isinf": jnp.isinf,
    "isfinite": jnp.isfinite,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor_div": _guarded(jnp.floor_divide),
    "mod": _guarded(jnp.remainder),
    "pow": lambda a, b: jnp.power(a, b),
    "maximum": _larger,
    "minimum": _smaller,
    "atan2": jnp.arctan2,
    "logical_and": _logical(jnp.logical_and),
    "logical_or": _logical(jnp.logical_or),
    "logical_xor": _logical(jnp.logical_xor),
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "relu_grad": lambda dy, y: jnp.where(y > 0, dy, 0),
    "relu6_grad": lambda dy, y: jnp.where((y > 0) & (y < 6), dy, 0),
    "sigmoid_grad": lambda dy, y: dy * y * (1 - y),
    "tanh_grad": lambda dy, y: dy * (1 - y * y),
    "silu_grad": _silu_grad,
}

ACTIVATIONS: dict[str, Callable[[Array, float], Array]] = {
    "none": lambda x, slope: x,
    "leaky_relu": lambda x, slope: jnp.where(x > 0, x, slope * x),
    "gelu": lambda x, slope: gelu(x, False),
    "gelu_tanh": lambda x, slope: gelu(x, True),
} | {name: (lambda x, slope, f=SIMPLE[name]: f(x)) for name in ("relu", "relu6", "sigmoid", "tanh", "silu")}


def _declare(name: str, function: Callable[..., Array]) -> None:
    @rule(name)
    def apply(call: Call, *xs: Array, **attrs: Any) -> Array:
        return function(*(wide(x) for x in xs), **attrs)


for _name, _function in SIMPLE.items():
    _declare(_name, _function)
_declare("leaky_relu", lambda x, slope: jnp.where(x > 0, x, slope * x))
_declare("elu", lambda x, alpha: jnp.where(x > 0, x, alpha * jnp.expm1(x)))
_declare("leaky_relu_grad", lambda dy, x, slope: jnp.where(x > 0, dy, slope * dy))
_declare("prelu", lambda x, slope: jnp.where(x > 0, x, slope * x))
_declare("gelu", gelu)
_declare("lerp", lambda a, b, weight: a + weight * (b - a))


@rule("gelu_grad")
def _gelu_grad(call: Call, dy: Array, x: Array, *, approximate: bool) -> Array:
    dy, x = wide(dy), wide(x)
    if not approximate:
        density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
        return dy * (0.5 * lax.erfc(-x * math.sqrt(0.5)) + x * density)
    c = 2 * math.sqrt(2 / math.pi)
    s = jax.nn.sigmoid(c * (x + 0.044715 * x**3))
    return dy * s * (1 + x * (1 - s) * c * (1 + 3 * 0.044715 * x * x))


@rule("where")
def _where(call: Call, cond: Array, a: Array, b: Array) -> Array:
    return jnp.where(cond, a, b)


@rule("clip")
def _clip(call: Call, x: Array, *, min: float, max: float) -> Array:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        limits = jnp.iinfo(x.dtype)
        whole = [int(_cut(math.floor(v) if math.isfinite(v) else v, limits.min, limits.max)) for v in (min, max)]
        return jnp.clip(x, *(jnp.asarray(v, x.dtype) for v in whole))
    low, high = (jnp.asarray(v, x.dtype) for v in (min, max))
    return jnp.where(x < low, low, jnp.where(x > high, high, x))


def _cut(v: float, low: int, high: int) -> float:
    return low if v < low else high if v > high else v


@rule("cast")
def _cast(call: Call, x: Array, *, dtype: str, elidable: bool) -> Array:
    to = jnp_type(dtype)
    if dtype == "bool":
        return x != 0
    if jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(to, jnp.integer):
        limits = jnp.iinfo(to)
        x = jnp.trunc(wide(x))
        inside = jnp.where(jnp.isnan(x), 0, x).astype(to)  # XLA limits to the type's range
        top = float(limits.max) + 1.0 if float(limits.max) == limits.max else float(limits.max)
        return jnp.where(x >= top, limits.max, jnp.where(x <= float(limits.min), limits.min, inside)).astype(to)
    return x.astype(to)


@rule("broadcast_to")
def _broadcast_to(call: Call, x: Array, *, shape: tuple[int, ...]) -> Array:
    return jnp.broadcast_to(x, call.shape)


@rule("broadcast_like")
def _broadcast_like(call: Call, x: Array, like: Array) -> Array:
    return jnp.broadcast_to(x, call.shape)


@rule("sum_to")
def _sum_to(call: Call, x: Array, like: Array) -> Array:
    lead = x.ndim - like.ndim
    axes = [*range(lead), *(i + lead for i, n in enumerate(like.shape) if n == 1 and x.shape[i + lead] != 1)]
    return jnp.sum(wide(x), axis=tuple(axes)).reshape(like.shape) if axes else x.reshape(like.shape)
