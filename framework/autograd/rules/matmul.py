"""Gradients of framework/native/ops/matmul.cc."""

from __future__ import annotations

from typing import Any

from framework.autograd.rule_table import rule, through_composition
from framework.ops import flatten, matmul
from framework.ops.activations import before_activation, reads_input
from framework.ops.internal import sum_to
from framework.precision import like
from framework.tensors import Tensor


def _left(dz: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if transpose_a:
        product = matmul(b, dz, transpose_a=transpose_b, transpose_b=True)
    else:
        product = matmul(dz, b, transpose_b=not transpose_b)
    return product if b.ndim == 2 else sum_to(product, a)  # b has no axes that a is repeated along


def _right(dz: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    if b.ndim == 2 and a.ndim > 2 and not transpose_a:
        # One b for all rows of a: a single product sums over them, where a batch of them would be stored first.
        a, dz = flatten(a, start=0, end=-2), flatten(dz, start=0, end=-2)
    a, dz = like(a, b), like(dz, b)  # the gradient of float32 weights is not rounded to half
    if transpose_b:
        product = matmul(dz, a, transpose_a=True, transpose_b=transpose_a)
    else:
        product = matmul(a, dz, transpose_a=not transpose_a)
    return product if a.ndim == 2 else sum_to(product, b)


# What the gradient of every input starts from, by the names of inputs, results and attributes.
def _dz(dy: Tensor, y: Tensor, a: Tensor, b: Tensor, bias: Any, residual: Any, **how: Any) -> Tensor:
    activation, slope = how.pop("activation"), how.pop("slope")
    at = matmul(a, b, bias, residual, **how) if reads_input(activation) else y
    return before_activation(dy, at, activation, slope)


def _how(transpose_a: bool, transpose_b: bool, activation: str, slope: float) -> dict[str, Any]:
    return {"transpose_a": transpose_a, "transpose_b": transpose_b, "activation": activation, "slope": slope}


def _grad_a(dy, y, a, b, bias, residual, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    dz = _dz(dy, y, a, b, bias, residual, **_how(transpose_a, transpose_b, activation, slope))
    return _left(dz, a, b, transpose_a, transpose_b)


def _grad_b(dy, y, a, b, bias, residual, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    dz = _dz(dy, y, a, b, bias, residual, **_how(transpose_a, transpose_b, activation, slope))
    return _right(dz, a, b, transpose_a, transpose_b)


def _grad_bias(dy, y, a, b, bias, residual, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    dz = _dz(dy, y, a, b, bias, residual, **_how(transpose_a, transpose_b, activation, slope))
    return sum_to(like(dz, bias), bias)


def _grad_residual(dy, y, a, b, bias, residual, transpose_a, transpose_b, activation, slope):  # type: ignore[no-untyped-def]
    return _dz(dy, y, a, b, bias, residual, **_how(transpose_a, transpose_b, activation, slope))


rule("matmul", a=_grad_a, b=_grad_b, bias=_grad_bias, residual=_grad_residual)
through_composition("matmul_activation_grad")
