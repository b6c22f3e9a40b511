"""Gradients of framework/native/ops/resize.cc: a linear map and its adjoint."""

from framework import ops
from framework.autograd.rule_table import rule

rule("resize_nearest", x=lambda dy, x, size, scale: ops.resize_nearest_grad(dy, x, size, scale))
rule("resize_nearest_grad", dy=lambda ddx, size, scale: ops.resize_nearest(ddx, size, scale))
rule(
    "resize_bilinear",
    x=lambda dy, x, size, scale, align_corners: ops.resize_bilinear_grad(dy, x, size, scale, align_corners),
)
rule(
    "resize_bilinear_grad",
    dy=lambda ddx, size, scale, align_corners: ops.resize_bilinear(ddx, size, scale, align_corners),
)
