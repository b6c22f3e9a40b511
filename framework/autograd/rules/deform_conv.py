"""Gradients of framework/native/ops/deform_conv.cc."""

from typing import Any

from framework import ops
from framework.autograd.rule_table import first_order_only, joint_rule, rule
from framework.ops import internal


def _deform_conv2d(
    dy: Any, x: Any, offset: Any, weight: Any, mask: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Any:
    return internal.deform_conv2d_grad(dy, x, offset, weight, mask, stride, padding, dilation, groups)


joint_rule("deform_conv2d", "x offset weight mask", _deform_conv2d)
rule("deform_conv2d", bias=lambda dy: ops.sum(dy, axes=(0, 1, 2)))
first_order_only("training needs one order", "deform_conv2d_grad")
