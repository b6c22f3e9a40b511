"""Gradients of framework/native/ops/overlap.cc."""

from framework.autograd.rule_table import no_gradient

no_gradient("it chooses training targets, which are held fixed", "max_iou")
