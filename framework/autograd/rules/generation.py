"""framework/native/ops/generation.cc: no gradients, for the cache is written in place."""

from framework.autograd.rule_table import no_gradient

no_gradient("it generates, from a cache that steps overwrite; train with ragged_attention", "paged_attention")
no_gradient("it generates, from a cache that steps overwrite; train with ragged_attention", "paged_weights")
no_gradient("it generates; train with matmul, which sums in an order that the batch sets", "linear_by_rows")
no_gradient("its results are places in data", "page_rows")
