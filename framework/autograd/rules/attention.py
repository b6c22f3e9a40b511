"""Gradients of framework/native/ops/attention.cc."""

from __future__ import annotations

from framework.autograd.rule_table import joint_rule, rule, through_composition
from framework.ops import internal


def _ragged_attention(  # type: ignore[no-untyped-def]
    dy, y, lse, q, k, v, offsets, k_offsets, key, heads, scale, causal, p, window, dlse=None
):
    """Gradients of ragged_attention by q, k and v."""
    how = {"heads": heads, "scale": scale, "causal": causal, "p": p, "window": window}
    return internal.ragged_attention_grad(dy, y, lse, q, k, v, offsets, k_offsets, key, dlse, **how)


def _ragged_self_attention(  # type: ignore[no-untyped-def]
    dy, y, lse, qkv, offsets, key, heads, scale, causal, p, window, dlse=None
):
    """Gradient of ragged_self_attention by qkv."""
    how = {"heads": heads, "scale": scale, "causal": causal, "p": p, "window": window}
    return internal.ragged_self_attention_grad(dy, y, lse, qkv, offsets, key, dlse, **how)


joint_rule("ragged_attention", "q k v", _ragged_attention)
rule("ragged_self_attention", qkv=_ragged_self_attention)
through_composition("ragged_attention_grad", "ragged_self_attention_grad")
