"""Gradients of framework/native/ops/softmax.cc."""

from framework import ops
from framework.autograd.rule_table import rule

rule(
    "sigmoid_cross_entropy",
    logits=lambda dloss, logits, targets: dloss * (ops.sigmoid(logits) - targets),
    targets=lambda dloss, logits: -dloss * logits,
)
