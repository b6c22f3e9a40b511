"""Matrix products of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from framework import ops
from framework.onnx.interpreter import Node, shape_of
from framework.onnx.operators.common import is_float
from framework.onnx.operators.shapes import flatten
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


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
    equation = str(node.attr("equation"))
    _limit_joined(node, equation, [shape_of(x) for x in xs])
    return ops.einsum(equation, *xs)


def _limit_joined(node: Node, equation: str, shapes: Sequence[Sequence[int]]) -> None:
    """Refuses an equation that joins operands to gigabytes; axes under "..." count with each operand that has them."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        return  # the operator itself says what does not fit
    extent: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        front, dots, back = term.partition("...")
        rest = [str(at) for at in reversed(range(len(shape) - len(front) - len(back)))] if dots else []
        for letter, size in zip([*front, *rest, *back], shape, strict=False):
            extent[letter] = max(extent.get(letter, 1), size)
        later = set("".join([right or left, *terms[i + 1 :]]))
        node.limit([size for letter, size in extent.items() if letter in later or letter.isdigit()])
