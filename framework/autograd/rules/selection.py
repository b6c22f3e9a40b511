"""What framework/native/ops/selection.cc finds has no gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient("its results are places in data", "nonzero_sized")
no_gradient("which of several equal elements a value comes from is not defined; gather one of each", "unique_sized")
