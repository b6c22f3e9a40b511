"""Quantised numbers of ONNX: q = saturate(round(x / scale) + zero point)."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework import ops
from framework.context import context
from framework.onnx.interpreter import Node
from framework.onnx.operators.casts import element_type
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.operators.conv import conv
from framework.onnx.operators.linear import product
from framework.onnx.registry import onnx_op
from framework.ops import internal
from framework.tensors import Tensor

_RANGE = {"uint8": (0, 255), "int8": (-128, 127), "int32": (-(2**31), 2**31 - 1)}


def _as(x: Tensor, dtype: str) -> Tensor:
    return x if x.dtype == dtype else ops.cast(x, dtype=dtype)


def _spread(node: Node, v: Tensor, x: Tensor) -> Tensor:
    """A scale or zero point that broadcasts to x: one, one a channel of `axis`, or one a block along it."""
    if v.ndim == 0 or (v.ndim == 1 and v.size == 1):
        return ops.reshape(v, shape=())
    axis, block = axis_of(node.attr("axis", 1), x.ndim), node.attr("block_size", 0)
    if v.ndim == 1:
        return ops.reshape(v, shape=[-1, *(1 for _ in range(x.ndim - axis - 1))])
    each = ops.gather(v, constant(np.arange(extents(x)[axis]) // block, "int64"), axis=axis)
    return each


def quantized(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: str) -> Tensor:
    """Rounds halves to even and saturates."""
    if dtype not in _RANGE:
        raise node.fail(f"quantised numbers of type {dtype} are not supported; {', '.join(_RANGE)} are")
    low, high = _RANGE[dtype]
    x = _as(x, "float32")
    q = ops.round(x / _spread(node, _as(scale, "float32"), x))
    if zero is not None:
        q = q + _spread(node, ops.cast(zero, dtype="float32"), x)
    return ops.cast(ops.clip(q, min=float(low), max=float(high)), dtype=dtype)


def dequantized(node: Node, q: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(q - zero point) * scale."""
    x = ops.cast(q, dtype="float32")
    if zero is not None:
        x = x - _spread(node, ops.cast(zero, dtype="float32"), x)
    return x * _spread(node, _as(scale, "float32"), x)


def _steps(scale: Tensor, zero: Tensor | None) -> tuple[float, int] | None:
    """The scale and zero point of all of a tensor where the core's 8-bit operators take them; they have no gradient."""
    if context.grad_enabled or scale.dtype != "float32" or any(v is not None and v.is_traced for v in (scale, zero)):
        return None
    if scale.size != 1 or (zero is not None and zero.size != 1):
        return None
    step = float(scale.numpy().reshape(()))
    return (step, 0 if zero is None else int(zero.numpy().reshape(()))) if 1e-30 <= step <= 1e30 else None


@onnx_op("QuantizeLinear")
def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """To uint8 or int8."""
    number = node.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else element_type(node, number) if number else "uint8"
    steps = _steps(scale, zero)
    if steps is not None and x.dtype == "float32" and dtype in ("uint8", "int8"):
        return internal.quantize_linear(x, y_scale=steps[0], y_zero=steps[1], dtype=dtype)
    return quantized(node, x, scale, zero, dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(node: Node, q: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Back to the scale's type."""
    steps = _steps(scale, zero)
    if steps is not None and q.dtype in ("uint8", "int8"):
        return internal.dequantize_linear(q, x_scale=steps[0], x_zero=steps[1])
    return _as(dequantized(node, q, scale, zero), scale.dtype)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, x: Tensor) -> Any:
    """To uint8 by the range of x itself, 0 included."""
    low, high = ops.minimum(ops.min(x), 0.0), ops.maximum(ops.max(x), 0.0)
    scale = (high - low) / 255.0
    safe = ops.where(ops.equal(scale, 0.0), ops.full_like(scale, value=1.0), scale)
    zero = ops.cast(ops.clip(ops.round(-low / safe), min=0.0, max=255.0), dtype="uint8")
    return quantized(node, x, safe, zero, "uint8"), scale, zero


def _centred(x: Tensor, zero: Tensor | None) -> Tensor:
    """x - zero point in float64, where sums of products of 8-bit numbers are exact."""
    wide = ops.cast(x, dtype="float64")
    return wide if zero is None else wide - ops.cast(zero, dtype="float64")


def _rows(zero: Tensor | None) -> Tensor | None:
    """One zero point a row of the left matrix."""
    return ops.expand_dims(zero, axis=-1) if zero is not None and zero.ndim == 1 and zero.size > 1 else zero


@onnx_op("MatMulInteger")
def matmul_integer(node: Node, a: Tensor, b: Tensor, za: Tensor | None = None, zb: Tensor | None = None) -> Tensor:
    """Exact products of 8-bit numbers, int32."""
    return ops.cast(product(_centred(a, _rows(za)), _centred(b, zb)), dtype="int32")


@onnx_op("QLinearMatMul")
def qlinear_matmul(
    node: Node, a: Tensor, sa: Tensor, za: Tensor, b: Tensor, sb: Tensor, zb: Tensor, sy: Tensor, zy: Tensor
) -> Tensor:
    """A product of quantised matrices, quantised."""
    y = product(_centred(a, _rows(za)), _centred(b, zb))
    sa, sb, sy = (ops.cast(s, dtype="float64") for s in (sa, sb, sy))
    y = y * (sa * sb / sy)
    low, high = _RANGE[zy.dtype]
    q = ops.round(y) + ops.cast(zy, dtype="float64")
    return ops.cast(ops.clip(q, min=float(low), max=float(high)), dtype=zy.dtype)


def _channels(v: Tensor | None, rank: int) -> Tensor | None:
    return ops.reshape(v, shape=[-1, *(1 for _ in range(rank - 1))]) if v is not None and v.ndim == 1 else v


@onnx_op("ConvInteger")
def conv_integer(node: Node, x: Tensor, w: Tensor, zx: Tensor | None = None, zw: Tensor | None = None) -> Tensor:
    """Exact convolution of 8-bit numbers, int32."""
    if zx is not None:
        zx = ops.reshape(zx, shape=())
    y = conv(node, _centred(x, zx), _centred(w, _channels(zw, w.ndim)))
    return ops.cast(y, dtype="int32")


@onnx_op("QLinearConv")
def qlinear_conv(
    node: Node,
    x: Tensor,
    sx: Tensor,
    zx: Tensor,
    w: Tensor,
    sw: Tensor,
    zw: Tensor,
    sy: Tensor,
    zy: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """A convolution of quantised numbers, quantised."""
    b = None if bias is None else ops.cast(bias, dtype="float64")
    y = conv(node, _centred(x, ops.reshape(zx, shape=())), _centred(w, _channels(zw, w.ndim)), b)
    sx, sw, sy = (ops.cast(s, dtype="float64") for s in (sx, sw, sy))
    factor = ops.reshape(sx, shape=()) * sw / ops.reshape(sy, shape=())
    y = y * (ops.reshape(factor, shape=[1, -1, *(1 for _ in range(x.ndim - 2))]))
    low, high = _RANGE[zy.dtype]
    q = ops.round(y) + ops.cast(ops.reshape(zy, shape=()), dtype="float64")
    return ops.cast(ops.clip(q, min=float(low), max=float(high)), dtype=zy.dtype)
