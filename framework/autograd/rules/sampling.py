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
first_order_only("training needs one order", "grid_sample_grad")
