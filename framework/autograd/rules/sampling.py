"""Gradients of framework/native/ops/sampling.cc."""

from framework.autograd.rule_table import first_order_only, joint_rule
from framework.ops import internal

joint_rule(
    "grid_sample",
    "x grid",
    lambda dy, x, grid, mode, padding, align_corners: internal.grid_sample_grad(
        dy, x, grid, mode, padding, align_corners
    ),
)
joint_rule(
    "grid_sample_grad",
    "dy x grid",
    lambda ddx, ddgrid, dy, x, grid, mode, padding, align_corners: internal.grid_sample_grad_grad(
        ddx, ddgrid, dy, x, grid, mode, padding, align_corners
    ),
)
first_order_only("training needs two orders", "grid_sample_grad_grad")
