"""Gradients of framework/native/ops/random.cc: the mask is made again from the key, not kept."""

from framework import ops
from framework.autograd.rule_table import no_gradient, rule

rule("dropout", x=lambda dy, key, p: ops.dropout(dy, key, p))
no_gradient(
    "it draws numbers that depend on a key only",
    "rng_next", "random_uniform", "random_uniform_like", "random_normal",
    "random_integers", "random_permutation",
)  # fmt: skip
