"""Gradients of framework/native/ops/frames.cc: moves, so each is the other way round."""

from framework import ops
from framework.autograd.rule_table import rule

rule(
    "temporal_shift",
    x=lambda dy, channels, reverse: ops.temporal_shift(dy, channels=channels, reverse=not reverse),
)
rule(
    "unfold_frames",
    x=lambda dy, x, size, stride, padding, dilation: ops.fold_frames(dy, x, size, stride, padding, dilation),
)
rule(
    "fold_frames",
    dy=lambda ddx, size, stride, padding, dilation: ops.unfold_frames(ddx, size, stride, padding, dilation),
)
