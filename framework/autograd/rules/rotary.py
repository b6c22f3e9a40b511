"""Gradients of framework/native/ops/rotary.cc: the turn back, and products with both halves for the angles."""

from typing import Any

from framework import ops
from framework.autograd.rule_table import rule
from framework.ops import internal
from framework.ops.compositions import pairs_of

T = Any  # Tensor


def _products(dy: T, x: T, cos: T, heads: int, interleaved: bool, turned: bool) -> T:
    """What each pair of dy has along the pair of x, or along that turned by a right angle, summed to cos's shape."""
    a, b = pairs_of(x, cos, heads, interleaved)
    da, db = pairs_of(dy, cos, heads, interleaved)
    products = db * a - da * b if turned else da * a + db * b
    return internal.sum_to(ops.sum(products, axes=(-2,)), cos)


rule(
    "rotary_embedding",
    x=lambda dy, cos, sin, heads, interleaved: ops.rotary_embedding(
        dy, cos, -sin, heads=heads, interleaved=interleaved
    ),
    cos=lambda dy, x, cos, heads, interleaved: _products(dy, x, cos, heads, interleaved, turned=False),
    sin=lambda dy, x, cos, heads, interleaved: _products(dy, x, cos, heads, interleaved, turned=True),
)
