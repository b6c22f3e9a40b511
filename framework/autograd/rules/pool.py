"""Gradients of framework/native/ops/pool.cc: linear in what flows back, so each family closes on itself."""

from framework import ops
from framework.autograd.rule_table import flat, rule
from framework.ops import internal

rule(
    "max_pool2d",
    x=lambda dy, x, kernel, stride, padding, ceil_mode: internal.max_pool2d_grad(
        dy, x, kernel, stride, padding, ceil_mode
    ),
)
rule(
    "max_pool2d_grad",
    dy=lambda ddx, x, kernel, stride, padding, ceil_mode: internal.max_pool2d_pick(
        ddx, x, kernel, stride, padding, ceil_mode
    ),
)
rule(
    "max_pool2d_pick",
    v=lambda dy, x, kernel, stride, padding, ceil_mode: internal.max_pool2d_grad(
        dy, x, kernel, stride, padding, ceil_mode
    ),
)
_PLACES = "it only says where each window's largest value lies"
flat("max_pool2d_grad", x=_PLACES)
flat("max_pool2d_pick", x=_PLACES)
rule(
    "avg_pool2d",
    x=lambda dy, x, kernel, stride, padding, ceil_mode, count_include_pad: internal.avg_pool2d_grad(
        dy, x, kernel, stride, padding, ceil_mode, count_include_pad
    ),
)
rule(
    "avg_pool2d_grad",
    dy=lambda ddx, kernel, stride, padding, ceil_mode, count_include_pad: ops.avg_pool2d(
        ddx, kernel, stride, padding, ceil_mode, count_include_pad
    ),
)
rule("adaptive_max_pool2d", x=lambda dy, x, size: internal.adaptive_max_pool2d_grad(dy, x, size))
rule("adaptive_max_pool2d_grad", dy=lambda ddx, x, size: internal.adaptive_max_pool2d_pick(ddx, x, size))
rule("adaptive_max_pool2d_pick", v=lambda dy, x, size: internal.adaptive_max_pool2d_grad(dy, x, size))
flat("adaptive_max_pool2d_grad", x=_PLACES)
flat("adaptive_max_pool2d_pick", x=_PLACES)
rule("adaptive_avg_pool2d", x=lambda dy, x, size: internal.adaptive_avg_pool2d_grad(dy, x, size))
rule("adaptive_avg_pool2d_grad", dy=lambda ddx, size: ops.adaptive_avg_pool2d(ddx, size))
