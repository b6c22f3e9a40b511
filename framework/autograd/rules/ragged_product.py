"""Gradients of framework/native/ops/ragged_product.cc: each is made of the two."""

from framework import ops
from framework.autograd.rule_table import rule
from framework.tensors import Tensor


def _matrix_gradient(dy: Tensor, x: Tensor, offsets: Tensor, transpose_m: bool) -> Tensor:
    return ops.segment_outer(dy, x, offsets) if transpose_m else ops.segment_outer(x, dy, offsets)


rule(
    "segment_outer",
    x=lambda dy, z, offsets: ops.segment_product(z, dy, offsets, transpose_m=True),
    z=lambda dy, x, offsets: ops.segment_product(x, dy, offsets),
)
rule(
    "segment_product",
    x=lambda dy, m, offsets, transpose_m: ops.segment_product(dy, m, offsets, transpose_m=not transpose_m),
    m=_matrix_gradient,
)
