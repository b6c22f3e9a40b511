"""Gradients of framework/native/ops/chain.cc."""

from framework.autograd.rule_table import no_gradient

no_gradient("passes make it of operators whose gradients have been taken", "chain")
