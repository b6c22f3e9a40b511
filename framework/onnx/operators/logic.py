"""Comparisons, logic, bits and choices of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import constant
from framework.onnx.operators.elementwise import _aligned
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

_COMPARE = {
    "Equal": ops.equal,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
}
_LOGIC = {"And": ops.logical_and, "Or": ops.logical_or, "Xor": ops.logical_xor}


def _declare(name: str, op: Callable[[Any, Any], Tensor], compute: str) -> None:
    onnx_op(name, compute=compute)(lambda node, a, b: op(*_aligned(node, a, b)))


for _name, _op in _COMPARE.items():
    _declare(_name, _op, "float")
for _name, _op in _LOGIC.items():
    _declare(_name, _op, "any")


@onnx_op("Not")
def logical_not(node: Node, x: Tensor) -> Tensor:
    """True where x is false."""
    return ops.logical_not(x)


@onnx_op("IsNaN", compute="float")
def is_nan(node: Node, x: Tensor) -> Tensor:
    """True where x is NaN."""
    return ops.isnan(x)


@onnx_op("IsInf", compute="float")
def is_inf(node: Node, x: Tensor) -> Tensor:
    """True where x is infinite, of one sign or both."""
    found = ops.isinf(x)
    if not node.attr("detect_negative", 1):
        found = ops.logical_and(found, ops.greater(x, 0.0))
    if not node.attr("detect_positive", 1):
        found = ops.logical_and(found, ops.less(x, 0.0))
    return found


@onnx_op("Where")
def where(node: Node, cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where cond is true, b elsewhere."""
    return ops.where(cond, a, b)


# -- bits, by arithmetic: x = sum of 2^i * bit i; a negative number is its two's complement.
_BITS = {"uint8": 8, "int8": 8, "int32": 32, "int64": 64}


@onnx_op("BitwiseNot")
def bitwise_not(node: Node, x: Tensor) -> Tensor:
    """All bits the other way: -1 - x."""
    return ops.cast(-1 - ops.cast(x, dtype="int64"), dtype=x.dtype)


@onnx_op("BitwiseAnd")
def bitwise_and(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Bits set in both."""
    return _by_bits(a, b, ops.logical_and)


@onnx_op("BitwiseOr")
def bitwise_or(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Bits set in one or both."""
    return _by_bits(a, b, ops.logical_or)


@onnx_op("BitwiseXor")
def bitwise_xor(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Bits set in exactly one."""
    return _by_bits(a, b, ops.logical_xor)


def _by_bits(a: Tensor, b: Tensor, join: Callable[[Any, Any], Tensor]) -> Tensor:
    weights = np.left_shift(np.int64(1), np.arange(_BITS[a.dtype], dtype=np.int64))
    joined = join(_bits(a, weights), _bits(b, weights))
    total = ops.sum(ops.cast(joined, dtype="int64") * constant(weights), axes=-1)
    return ops.cast(total, dtype=a.dtype)


def _bits(x: Tensor, weights: np.ndarray) -> Tensor:
    """[...] -> [..., bits], bool; a weight of -2^63 selects the sign."""
    wide = ops.expand_dims(ops.cast(x, dtype="int64"), axis=-1)
    found = ops.equal(ops.mod(ops.floor_div(wide, constant(np.abs(weights[:63]))), 2), 1)
    if len(weights) < 64:
        return found
    return ops.concat([found, ops.less(wide, 0)], axis=-1)


@onnx_op("BitShift")
def bit_shift(node: Node, x: Tensor, y: Tensor) -> Tensor:
    """x times or over 2 to the power y, as whole numbers of x's type; all bits are gone from its width on."""
    width = _BITS[x.dtype] - (x.dtype == "int64")  # 2^63 is no int64, but the wrapped product with 2^62 * 2 is
    by = ops.cast(y, dtype="int64")
    gone = ops.logical_or(ops.greater_equal(by, width), ops.less(by, 0))
    table = constant(np.left_shift(np.int64(1), np.arange(width, dtype=np.int64)))
    factor = ops.gather(table, ops.where(gone, ops.full_like(by, value=0.0), by))
    wide = ops.cast(x, dtype="int64")
    if node.attr("direction") == "LEFT":
        shifted, rest = ops.mul(wide, factor), ops.full_like(wide, value=0.0)
    else:
        shifted, rest = ops.floor_div(wide, factor), ops.cast(ops.less(wide, 0), dtype="int64") * -1
    return ops.cast(ops.where(gone, rest, shifted), dtype=x.dtype)
