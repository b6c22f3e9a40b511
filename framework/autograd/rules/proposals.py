"""Operators of framework/native/ops/proposals.cc have no gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient("it chooses regions, which is not differentiable", "select_proposals")
