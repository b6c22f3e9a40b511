"""Gradients of framework/native/ops/reduce.cc."""

from typing import Any

from framework import ops
from framework.autograd.rule_table import no_gradient, rule
from framework.ops import cast, mean, sum, unreduce, where

rule("sum", x=lambda dy, x, axes, keepdims: unreduce(dy, x, axes=axes, keepdims=keepdims))
rule("mean", x=lambda dy, x, axes, keepdims: unreduce(dy, x, axes=axes, keepdims=keepdims, average=True))
rule("max", x=lambda dy, x, y, axes, keepdims: _to_extremes(dy, x, y, axes, keepdims))
rule("min", x=lambda dy, x, y, axes, keepdims: _to_extremes(dy, x, y, axes, keepdims))
rule("prod", x=lambda dy, x, axes, keepdims: _prod_gradient(dy, x, axes, keepdims))
rule(
    "logsumexp",
    x=lambda dy, x, y, axes, keepdims: (
        unreduce(dy, x, axes=axes, keepdims=keepdims) * ops.exp(x - unreduce(y, x, axes=axes, keepdims=keepdims))
    ),
)
rule("cumsum", x=lambda dy, axis, reverse: ops.cumsum(dy, axis=axis, reverse=not reverse))
rule(
    "unreduce",
    x=lambda dy, axes, keepdims, average: (mean if average else sum)(dy, axes=axes, keepdims=keepdims),
)
no_gradient("its result is a truth value or an index", "any", "all", "argmax", "argmin")


def _to_extremes(dy: Any, x: Any, y: Any, axes: Any, keepdims: bool) -> Any:
    """dy shared equally by the elements that equal the extreme."""
    hit = cast(x == unreduce(y, x, axes=axes, keepdims=keepdims), dtype=x.dtype)
    return hit * unreduce(dy / sum(hit, axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims)


def _prod_gradient(dy: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """The product of the others: y / x, and with a single zero the product of the rest at the zero's place."""
    zero = x == 0.0
    safe = where(zero, 1.0, x)
    zeros = unreduce(sum(cast(zero, dtype=x.dtype), axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims)
    rest = unreduce(dy * ops.prod(safe, axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims) / safe
    return where(zeros == cast(zero, dtype=x.dtype), rest, 0.0)
