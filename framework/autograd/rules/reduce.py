"""Gradients of framework/native/ops/reduce.cc."""

from typing import Any

from framework import ops
from framework.autograd.rule_table import joint_rule, no_gradient, rule
from framework.ops import cast, internal, mean, sum, where
from framework.ops.internal import unreduce

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
rule("cumprod", x=lambda dy, x, axis, reverse: internal.cumprod_grad(dy, x, axis=axis, reverse=reverse))
rule(
    "cumprod_grad",
    dy=lambda ddx, x, axis, reverse: ops.linear_scan(x, ddx * _products_before(x, axis, reverse), axis, reverse),
    x=lambda ddx, dy, x, axis, reverse: _cumprod_curvature(ddx, dy, x, axis, reverse),
)
joint_rule("linear_scan", "a b", lambda dy, a, y, axis, reverse: _scan_gradients(dy, a, y, axis, reverse))
rule("var", x=lambda dy, x, axes, keepdims, correction: internal.var_grad(dy, x, axes, keepdims, correction))
rule(
    "std",
    x=lambda dy, x, y, axes, keepdims, correction: internal.var_grad(
        where(y == 0.0, 0.0, 0.5 * dy / y), x, axes, keepdims, correction
    ),
)
rule(  # symmetric in x and ddx
    "var_grad",
    dy=lambda ddx, dy, x, axes, keepdims, correction: sum(
        ddx * internal.var_grad(ops.full_like(dy, value=1.0), x, axes, keepdims, correction),
        axes=axes,
        keepdims=keepdims,
    ),
    x=lambda ddx, dy, axes, keepdims, correction: internal.var_grad(dy, ddx, axes, keepdims, correction),
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


def _before(x: Any, axis: int, reverse: bool, first: float = 0.0) -> Any:
    """Each element's predecessor along an axis, `first` where there is none; its successor where `reverse`."""
    edge = ops.full_like(ops.slice(x, [0], [1], [axis]), value=first)
    if reverse:
        return ops.concat([ops.slice(x, [1], [_END], [axis]), edge], axis=axis)
    return ops.concat([edge, ops.slice(x, [0], [-1], [axis])], axis=axis)


_END = 2**40  # beyond every extent


def _products_before(x: Any, axis: int, reverse: bool) -> Any:
    return _before(ops.cumprod(x, axis, reverse), axis, reverse, first=1.0)


def _scan_gradients(dy: Any, a: Any, y: Any, axis: int, reverse: bool) -> tuple[Any, Any]:
    """The recurrence g[i] = dy[i] + a[i + 1] g[i + 1] is b's gradient, and g[i] y[i - 1] is a's."""
    db = ops.linear_scan(_before(a, axis, not reverse), dy, axis, not reverse)
    return db * _before(y, axis, reverse), db


def _cumprod_curvature(ddx: Any, dy: Any, x: Any, axis: int, reverse: bool) -> Any:
    """The gradient by x of sum(ddx * cumprod_grad(dy, x)), which is that of sum(dy * t).

    With p[i] the product before i, t[i] = x[i] t[i - 1] + p[i] ddx[i] is the change of the products in direction ddx.
    Backwards through t and through the products: s[i] = dy[i] + x[i + 1] s[i + 1],
    q[i] = x[i + 1] q[i + 1] + ddx[i + 1] s[i + 1], and s[i] t[i - 1] + q[i] p[i]. Nothing is divided, so zeros are
    numbers like others.
    """
    p, back, follower = _products_before(x, axis, reverse), not reverse, _before(x, axis, not reverse)
    t = ops.linear_scan(x, ddx * p, axis, reverse)
    s = ops.linear_scan(follower, dy, axis, back)
    q = ops.linear_scan(follower, _before(ddx * s, axis, back), axis, back)
    return s * _before(t, axis, reverse) + q * p


def _prod_gradient(dy: Any, x: Any, axes: Any, keepdims: bool) -> Any:
    """The product of the others: y / x, and with a single zero the product of the rest at the zero's place."""
    zero = x == 0.0
    safe = where(zero, 1.0, x)
    zeros = unreduce(sum(cast(zero, dtype=x.dtype), axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims)
    rest = unreduce(dy * ops.prod(safe, axes=axes, keepdims=keepdims), x, axes=axes, keepdims=keepdims) / safe
    return where(zeros == cast(zero, dtype=x.dtype), rest, 0.0)
