"""Gradients of framework/native/ops/ragged.cc."""

from __future__ import annotations

from framework import ops
from framework.autograd.rule_table import no_gradient, rule
from framework.ops import internal
from framework.tensors import Tensor


def _by_length(dy: Tensor, offsets: Tensor) -> Tensor:
    """Each sequence's row of dy [B, ...] divided by the number of its rows."""
    lengths = ops.maximum(offsets[1:] - offsets[:-1], 1)  # an empty one has nothing to divide
    lengths = ops.cast(lengths, dtype=dy.dtype)
    for _ in range(dy.ndim - 1):
        lengths = ops.expand_dims(lengths, axis=-1)
    return dy / lengths


rule("segment_sum", x=lambda dy, x, offsets: ops.segment_spread(dy, offsets, x))
rule("segment_mean", x=lambda dy, x, offsets: ops.segment_spread(_by_length(dy, offsets), offsets, x))
rule("segment_max", x=lambda dy, x, rows: ops.put_along_axis_add(ops.full_like(x, value=0.0), rows, dy, axis=0))
rule("segment_spread", x=lambda dy, offsets: ops.segment_sum(dy, offsets))
rule(
    "ragged_window",
    x=lambda dy, offsets, before, after: internal.ragged_window_grad(dy, offsets, before=before, after=after),
)
rule(
    "ragged_window_grad",
    dy=lambda ddx, offsets, before, after: ops.ragged_window(ddx, offsets, before=before, after=after),
)
no_gradient("it counts rows", "ragged_positions", "ragged_segments")
