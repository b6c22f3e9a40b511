"""Gradients of framework/native/ops/matmul.cc."""

from framework.autograd.rule_table import rule
from framework.autograd.rules.activation import before_activation
from framework.ops import flatten, matmul, sum_to
from framework.tensor import Tensor


def _left(dz: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if transpose_a:
        product = matmul(b, dz, transpose_a=transpose_b, transpose_b=True)
    else:
        product = matmul(dz, b, transpose_b=not transpose_b)
    return product if b.ndim == 2 else sum_to(product, a)  # such a b has no axes that a is repeated along


def _right(dz: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if b.ndim == 2 and a.ndim > 2 and not transpose_a:
        # One b for all rows of a: a single product sums over them, where a batch of them would be stored first.
        a, dz = flatten(a, start=0, end=-2), flatten(dz, start=0, end=-2)
    if transpose_b:
        product = matmul(dz, a, transpose_a=True, transpose_b=transpose_a)
    else:
        product = matmul(a, dz, transpose_a=not transpose_a)
    return product if a.ndim == 2 else sum_to(product, b)


def _grad_a(dy, y, a, b, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    return _left(before_activation(dy, y, activation, slope), a, b, transpose_a, transpose_b)


def _grad_b(dy, y, a, b, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    return _right(before_activation(dy, y, activation, slope), a, b, transpose_a, transpose_b)


rule(
    "matmul",
    a=_grad_a,
    b=_grad_b,
    bias=lambda dy, y, bias, activation, slope: sum_to(before_activation(dy, y, activation, slope), bias),
    residual=before_activation,
)
