"""Images in 8 bits: exact sums of integers, all else in float32."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from framework.xla.lower import Array, Call, rule
from framework.xla.rules.conv import ended, plain_sums


def _bytes(v: Array, zero: int, dtype: str) -> Array:
    """Values in steps of y as 8-bit numbers."""
    info = jnp.iinfo(dtype)
    return (jnp.clip(jnp.round(v), info.min - zero, info.max - zero) + zero).astype(dtype)


def _values(q: Array, zero: int, scale: float) -> Array:
    return (q.astype(jnp.float32) - np.float32(zero)) * np.float32(scale)


def _activated(v: Array, activation: str, slope: float, six: float) -> Array:
    if activation == "leaky_relu":
        return jnp.where(v < 0, v * np.float32(slope), v)
    v = v if activation == "none" else jnp.maximum(v, 0)
    return jnp.minimum(v, np.float32(six)) if activation == "relu6" else v


@rule("quantize_linear")
def _quantize(call: Call, x: Array, *, y_scale: float, y_zero: int, dtype: str) -> Array:
    return _bytes(x / np.float32(y_scale), y_zero, dtype)


@rule("dequantize_linear")
def _dequantize(call: Call, x: Array, *, x_scale: float, x_zero: int) -> Array:
    return _values(x, x_zero, x_scale)


@rule("quantized_add")
def _add(
    call: Call,
    a: Array,
    b: Array,
    *,
    activation: str,
    slope: float,
    a_scale: float,
    a_zero: int,
    b_scale: float,
    b_zero: int,
    y_scale: float,
    y_zero: int,
    dtype: str,
) -> Array:
    v = _values(a, a_zero, a_scale / y_scale) + _values(b, b_zero, b_scale / y_scale)
    return _bytes(_activated(v, activation, slope, 6 / y_scale), y_zero, dtype)


@rule("quantized_conv2d")
def _convolution(
    call: Call,
    x: Array,
    weight: Array,
    weight_scale: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    activation: str,
    slope: float,
    x_scale: float,
    x_zero: int,
    residual_scale: float,
    residual_zero: int,
    y_scale: float,
    y_zero: int,
    residual_last: bool,
    x_most: int,
    dtype: str,
    algorithm: str,
    **window: Any,
) -> Array:
    step = 1.0 if dtype == "float32" else y_scale
    if x.dtype == jnp.float32:
        x = jnp.clip(jnp.round(x / np.float32(x_scale)), -x_most, x_most)
    sums = plain_sums(x.astype(jnp.int32) - x_zero, weight.astype(jnp.int32), **window)
    if dtype == "int32":
        return sums
    v = sums.astype(jnp.float32) * (weight_scale * np.float32(x_scale / step))
    v = v if bias is None else v + bias * np.float32(1 / step)
    if residual is not None and residual.dtype != jnp.float32:
        residual = _values(residual, residual_zero, residual_scale / step)
    v = ended(v, residual, lambda v: _activated(v, activation, slope, 6 / step), residual_last)
    return v if dtype == "float32" else _bytes(v, y_zero, dtype)


@rule("requantize")
def _requantize(
    call: Call, x: Array, scale: Array, bias: Array | None = None, *, y_zero: int, low: int, high: int, dtype: str
) -> Array:
    least, most = (jnp.int64(getattr(np.iinfo(np.int32), end)) for end in ("min", "max"))
    part, exponent = jnp.frexp(scale)
    multiplier = jnp.floor(part * 2.0**31 + 0.5).astype(jnp.int64)
    carry = multiplier == 1 << 31
    multiplier, exponent = jnp.where(carry, multiplier // 2, multiplier), exponent + carry
    left, right = (jnp.maximum(e, 0).astype(jnp.int64) for e in (exponent, -exponent))
    multiplier, right = (jnp.where(exponent < -31, 0, v) for v in (multiplier, right))
    sums = jnp.clip(x.astype(jnp.int64) + (0 if bias is None else bias.astype(jnp.int64)), least, most)
    once = (jnp.clip(sums << left, least, most) * multiplier + (1 << 30)) >> 31
    half = jnp.where(right > 0, (jnp.int64(1) << right) >> 1, 0)
    y = (once + half - ((right > 0) & (once < 0))) >> right
    return jnp.clip(y + y_zero, low, high).astype(dtype)
