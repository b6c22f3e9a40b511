"""Operators of framework/native/ops/matching.cc have no gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient("it chooses training targets, which are held fixed", "match_boxes", "sample_matches")
