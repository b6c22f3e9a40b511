"""Gradients of framework/native/ops/ctc.cc."""

from framework.autograd.rule_table import first_order_only, rule
from framework.ops import internal

rule(
    "ctc_loss",
    logits=lambda dloss, logits, offsets, labels, label_offsets, blank, zero_infinity: internal.ctc_loss_grad(
        dloss, logits, offsets, labels, label_offsets, blank=blank, zero_infinity=zero_infinity
    ),
)
first_order_only(
    "differentiating forward-backward again is not supported; a recogniser's loss goes once", "ctc_loss_grad"
)
