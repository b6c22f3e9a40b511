"""Matrix products of ONNX."""

from __future__ import annotations

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import is_float
from framework.onnx.operators.shapes import flatten
from framework.onnx.registry import onnx_op
from framework.tensor import Tensor


@onnx_op("MatMul", compute="number")
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """NumPy's matmul."""
    return product(a, b)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b for any rank from 1; whole numbers are multiplied in float64, exact up to 2^53."""
    if not is_float(a):
        y = product(ops.cast(a, dtype="float64"), ops.cast(b, dtype="float64"))
        return ops.cast(y, dtype=a.dtype)
    row, column = a.ndim == 1, b.ndim == 1
    y = ops.matmul(
        ops.expand_dims(a, axis=0) if row else a,
        ops.expand_dims(b, axis=1) if column else b,
    )
    if column:
        y = ops.squeeze(y, axis=-1)
    return ops.squeeze(y, axis=-1 if column else -2) if row else y


@onnx_op("Gemm", compute="number")
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * a' @ b' + beta * c."""
    if node.version < 7 and a.ndim > 2:
        a = flatten(node, a)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    turn_a, turn_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    if not is_float(a):
        a, b = ops.transpose(a) if turn_a else a, ops.transpose(b) if turn_b else b
        return product(a, b) if c is None else product(a, b) + c
    y = ops.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b)
    y = y if alpha == 1.0 else y * alpha
    if c is None or beta == 0.0:
        return y
    return y + (c if beta == 1.0 else c * beta)


@onnx_op("Einsum", compute="float")
def einsum(node: Node, *xs: Tensor) -> Tensor:
    """Sums of products by index letters."""
    return ops.einsum(node.attr("equation"), *xs)
