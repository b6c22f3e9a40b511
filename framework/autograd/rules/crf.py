"""Gradients of framework/native/ops/crf.cc."""

from framework.autograd.rule_table import first_order_only, joint_rule, no_gradient
from framework.ops import internal

joint_rule(
    "crf_loss",
    "emissions transitions start stop",
    lambda dloss, emissions, transitions, start, stop, tags, offsets: internal.crf_loss_grad(
        dloss, emissions, transitions, start, stop, tags, offsets
    ),
)
first_order_only("differentiating forward-backward again is not supported; a chain's loss goes once", "crf_loss_grad")
no_gradient("the best path does not depend smoothly on the scores", "crf_decode")
