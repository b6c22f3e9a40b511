"""Quantised numbers of ONNX: q = saturate(round(x / scale) + zero point)."""

from __future__ import annotations

from collections.abc import Sequence
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

_RANGE = {"uint8": (0, 255), "int8": (-128, 127)}
_TINY = float(np.finfo(np.float32).tiny)


def _as(x: Tensor, dtype: str) -> Tensor:
    return x if x.dtype == dtype else ops.cast(x, dtype=dtype)


def _expect_type(dtype: str, zero: Tensor) -> None:
    if zero.dtype != dtype:
        raise ValueError(f"the zero point is {zero.dtype} and its numbers are {dtype}; both must be of one type")


def _expect_steps(dtype: str, scale: Tensor, zero: Tensor | None) -> None:
    """Refuses a zero point that is no number of the quantised type, or not one for each scale.

    Raises:
        ValueError: which the interpreter names the node in.
    """
    if zero is None:
        return
    _expect_type(dtype, zero)
    shapes = tuple(() if v.shape_now == (1,) else v.shape_now for v in (scale, zero))
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the scale has the shape {list(shapes[0])} and the zero point {list(shapes[1])}; they must agree"
        )


def _spread(node: Node, v: Tensor, x: Tensor) -> Tensor:
    """A scale or zero point that broadcasts to x: one, one a channel of `axis`, or one a block along it."""
    found, wanted = v.shape_now, x.shape_now
    if found in ((), (1,)):
        return ops.reshape(v, shape=())
    axis, block = axis_of(node.attr("axis", 1), x.ndim), node.attr("block_size", 0)
    if v.ndim == 1:
        if found[0] != wanted[axis]:
            raise ValueError(f"{found[0]} scales for axis {axis}, along which the tensor has {wanted[axis]}")
        return ops.reshape(v, shape=[-1, *(1 for _ in range(x.ndim - axis - 1))])
    if block < 1:
        raise ValueError(f"the scale has {v.ndim} axes, which is for blocks, and block_size is {block}")
    if found != (*wanted[:axis], -(-wanted[axis] // block), *wanted[axis + 1 :]):
        raise ValueError(
            f"scales of shape {list(found)} do not fit {list(wanted)} in blocks of {block} along axis {axis}"
        )
    return ops.gather(v, constant(np.arange(extents(x)[axis]) // block, "int64"), axis=axis)


def _steps_above_zero(scale: Tensor) -> Tensor:
    """Scales to divide by: 0 becomes the least number, so that 0 is the zero point and all else is cut.

    Raises:
        ValueError: one is NaN or infinite, and known before the graph runs.
    """
    scale = _as(scale, "float32")
    if not scale.is_traced and not np.isfinite(scale.numpy()).all():
        raise ValueError("a scale is NaN or infinite; it must be a number above 0")
    return ops.where(ops.equal(scale, 0.0), ops.full_like(scale, value=_TINY), scale)


def _saturated(q: Tensor, dtype: str) -> Tensor:
    """Whole numbers of float32 or float64 as 8-bit ones, cut to their range; a NaN is an error."""
    low, high = _RANGE[dtype]
    q = _as(ops.clip(q, min=float(low), max=float(high)), "float32")
    return internal.quantize_linear(q.detach(), dtype=dtype)  # whole numbers have no gradient anyway


def quantized(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: str) -> Tensor:
    """Rounds halves to even and saturates."""
    if dtype not in _RANGE:
        raise node.fail(f"quantised numbers of type {dtype} are not supported; {', '.join(_RANGE)} are")
    _expect_steps(dtype, scale, zero)
    x = _as(x, "float32")
    q = ops.round(x / _spread(node, _steps_above_zero(scale), x))
    if zero is not None:
        q = q + _spread(node, ops.cast(zero, dtype="float32"), x)
    return _saturated(q, dtype)


def dequantized(node: Node, q: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """(q - zero point) * scale."""
    _expect_steps(q.dtype, scale, zero)
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
    dtype = element_type(node, number) if number else zero.dtype if zero is not None else "uint8"
    _expect_steps(dtype, scale, zero)
    steps = _steps(scale, zero)
    if steps is not None and x.dtype == "float32" and dtype in ("uint8", "int8"):
        return internal.quantize_linear(x, y_scale=steps[0], y_zero=steps[1], dtype=dtype)
    return quantized(node, x, scale, zero, dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(node: Node, q: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    """Back to the scale's type, or that of `output_dtype`."""
    _expect_steps(q.dtype, scale, zero)
    steps, number = _steps(scale, zero), node.attr("output_dtype", 0)
    dtype = element_type(node, number) if number else scale.dtype
    if steps is not None and q.dtype in ("uint8", "int8"):
        return _as(internal.dequantize_linear(q, x_scale=steps[0], x_zero=steps[1]), dtype)
    return _as(dequantized(node, q, scale, zero), dtype)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, x: Tensor) -> Any:
    """To uint8 by the range of x itself, 0 included."""
    low, high = ops.minimum(ops.min(x), 0.0), ops.maximum(ops.max(x), 0.0)
    scale = (high - low) / 255.0
    scale = ops.where(ops.equal(scale, 0.0), ops.full_like(scale, value=1.0), scale)
    zero = ops.clip(ops.round(-low / scale), min=0.0, max=255.0)
    return _saturated(ops.round(x / scale) + zero, "uint8"), scale, ops.cast(zero, dtype="uint8")


_ROWS, _COLUMNS, _FILTERS = -2, -1, 0  # the axis along which a matrix, or the weights of a convolution, have scales


def _along(v: Tensor, shape: Sequence[int], axis: int | None) -> Tensor:
    """A scale or zero point in float64 that broadcasts to `shape`: one, a vector along `axis`, or all axes of which
    the other one of the matrix is 1.

    Raises:
        ValueError: it does not fit.
    """
    found, rank = v.shape_now, len(shape)
    v = ops.cast(v, dtype="float64")
    if found in ((), (1,)):
        return ops.reshape(v, shape=())
    if axis is not None and rank > 1:
        if found == (shape[axis],):
            return ops.reshape(v, shape=[-1, *(1 for _ in range(rank - axis % rank - 1))])
        across = {_ROWS: _COLUMNS, _COLUMNS: _ROWS}.get(axis)
        fits = len(found) == rank and all(n in (1, m) for n, m in zip(found, shape, strict=True))
        if fits and across is not None and found[across] == 1:
            return v
    raise ValueError(f"scales or zero points of shape {list(found)} do not fit numbers of shape {list(shape)}")


def _centred(x: Tensor, zero: Tensor | None, axis: int | None) -> Tensor:
    """x - zero point in float64, where sums of products of 8-bit numbers are exact."""
    wide = ops.cast(x, dtype="float64")
    if zero is None:
        return wide
    _expect_type(x.dtype, zero)
    return wide - _along(zero, x.shape_now, axis)


def _requantized(node: Node, sums: Tensor, zero: Tensor, axis: int | None) -> Tensor:
    """Sums in steps of y, rounded and saturated as numbers of the zero point's type."""
    if zero.dtype not in _RANGE:
        raise node.fail(f"quantised numbers of type {zero.dtype} are not supported; {', '.join(_RANGE)} are")
    return _saturated(ops.round(sums) + _along(zero, sums.shape_now, axis), zero.dtype)


@onnx_op("MatMulInteger")
def matmul_integer(node: Node, a: Tensor, b: Tensor, za: Tensor | None = None, zb: Tensor | None = None) -> Tensor:
    """Exact products of 8-bit numbers, int32."""
    return ops.cast(product(_centred(a, za, _ROWS), _centred(b, zb, _COLUMNS)), dtype="int32")


@onnx_op("QLinearMatMul")
def qlinear_matmul(
    node: Node, a: Tensor, sa: Tensor, za: Tensor, b: Tensor, sb: Tensor, zb: Tensor, sy: Tensor, zy: Tensor
) -> Tensor:
    """A product of quantised matrices, quantised."""
    y = product(_centred(a, za, _ROWS), _centred(b, zb, _COLUMNS))
    y = y * (_along(sa, a.shape_now, _ROWS) * _along(sb, b.shape_now, _COLUMNS))
    return _requantized(node, y / _along(_steps_above_zero(sy), y.shape_now, _ROWS), zy, _ROWS)


@onnx_op("ConvInteger")
def conv_integer(node: Node, x: Tensor, w: Tensor, zx: Tensor | None = None, zw: Tensor | None = None) -> Tensor:
    """Exact convolution of 8-bit numbers, int32."""
    return ops.cast(conv(node, _centred(x, zx, None), _centred(w, zw, _FILTERS)), dtype="int32")


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
    y = conv(node, _centred(x, zx, None), _centred(w, zw, _FILTERS), b)
    each = ops.reshape(_along(sw, w.shape_now, _FILTERS), shape=[-1, *(1 for _ in range(x.ndim - 2))])
    factor = _along(sx, (), None) * each / _along(_steps_above_zero(sy), (), None)
    return _requantized(node, y * factor, zy, None)
