"""Gradients of framework/native/ops/dense_attention.cc."""

from __future__ import annotations

from framework.autograd.rule_table import joint_rule, rule, through_composition
from framework.ops import internal
from framework.ops.dense_attention import mask_gradient


def _attention(  # type: ignore[no-untyped-def]
    dy, y, lse, q, k, v, mask, key, heads, scale, causal, p, dlse=None
):
    """Gradients by q, k and v."""
    return internal.scaled_dot_product_attention_grad(
        dy, y, lse, q, k, v, mask, key, dlse, heads=heads, scale=scale, causal=causal, p=p
    )


joint_rule("scaled_dot_product_attention", "q k v", _attention)
rule("scaled_dot_product_attention", mask=mask_gradient)
through_composition("scaled_dot_product_attention_grad")
