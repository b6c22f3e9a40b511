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
rule("cumprod", x=lambda dy, x, axis, reverse: ops.cumprod_grad(dy, x, axis=axis, reverse=reverse))
rule(
    "cumprod_grad",
    dy=lambda ddx, x, axis, reverse: ops.cumprod(x, axis, reverse) * ops.cumsum(ddx / x, axis, reverse),
    x=lambda ddx, dy, x, axis, reverse: _cumprod_curvature(ddx, dy, x, axis, reverse),
)
rule("var", x=lambda dy, x, axes, keepdims, correction: ops.var_grad(dy, x, axes, keepdims, correction))
rule(
    "std",
    x=lambda dy, x, y, axes, keepdims, correction: ops.var_grad(
        where(y == 0.0, 0.0, 0.5 * dy / y), x, axes, keepdims, correction
    ),
)
rule(  # symmetric in x and ddx
    "var_grad",
    dy=lambda ddx, dy, x, axes, keepdims, correction: sum(
        ddx * ops.var_grad(ops.full_like(dy, value=1.0), x, axes, keepdims, correction), axes=axes, keepdims=keepdims
    ),
    x=lambda ddx, dy, axes, keepdims, correction: ops.var_grad(dy, ddx, axes, keepdims, correction),
)
rule(
    "unreduce",
    x=lambda dy, axes, keepdims, average: (mean if average else sum)(dy, axes=axes, keepdims=keepdims),
)
no_gradient("its result is a truth value or an index", "any", "all", "argmax", "argmin")


def _to_extremes(dy: Any, x: Any, y: Any, axes: Any, keepdims: bool) -> Any:
    """dy shared equally by the elements that equal the extreme."""
    hit = cast(x == unreduce(y, x, axes=axes, keepdims=keepdims), dtype=x.dtype)
    return hit * unreduce(dy / sum(hit, axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims)


def _cumprod_curvature(ddx: Any, dy: Any, x: Any, axis: int, reverse: bool) -> Any:
    """Of r / x with r the sums of dy * y from each element on: through y, and through the division."""
    sums = ops.cumsum(dy * ops.cumprod(x, axis, reverse), axis, not reverse)
    through_y = ops.cumprod_grad(dy * ops.cumsum(ddx / x, axis, reverse), x, axis, reverse)
    return through_y - ddx * sums / ops.square(x)


def _prod_gradient(dy: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """The product of the others: y / x, and with a single zero the product of the rest at the zero's place."""
    zero = x == 0.0
    safe = where(zero, 1.0, x)
    zeros = unreduce(sum(cast(zero, dtype=x.dtype), axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims)
    rest = unreduce(dy * ops.prod(safe, axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims) / safe
    return where(zeros == cast(zero, dtype=x.dtype), rest, 0.0)
