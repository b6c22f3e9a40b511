"""Gradients of framework/native/ops/resize.cc: a linear map and its adjoint."""

from framework import ops
from framework.autograd.rule_table import rule
from framework.ops import internal

rule("resize_nearest", x=lambda dy, x: internal.resize_nearest_grad(dy, x))
rule("resize_nearest_grad", dy=lambda ddx, dy: ops.resize_nearest(ddx, dy))
rule("resize_bicubic", x=lambda dy, x, align_corners: internal.resize_bicubic_grad(dy, x, align_corners))
rule("resize_bicubic_grad", dy=lambda ddx, dy, align_corners: ops.resize_bicubic(ddx, dy, align_corners=align_corners))
rule("resize_bilinear", x=lambda dy, x, align_corners: internal.resize_bilinear_grad(dy, x, align_corners))
rule(
    "resize_bilinear_grad", dy=lambda ddx, dy, align_corners: ops.resize_bilinear(ddx, dy, align_corners=align_corners)
)
