"""Gradients of framework/native/ops/norm.cc.

In all: u = x - mean, h = u * r with r = 1 / sqrt(var + eps), g = dy * scale, and M the mean over the normalised axes;
the gradient of the input is r * (g - M(g) - h * M(g * h)), plus what comes through the statistics as outputs.
"""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.autograd.rule_table import joint_rule, rule

T = Any  # Tensor, or None for an absent input


def _leading(x: T) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


joint_rule(
    "batch_norm",
    "x scale bias",
    lambda dy, dmean, dvar, x, scale, mean, var, eps: ops.batch_norm_grad(
        dy, x, scale, mean, var, dmean, dvar, eps=eps
    ),
)


def _rate(scale: T, var: T, eps: float) -> T:
    return scale * ops.rsqrt(var + eps)


rule(
    "batch_norm_inference",
    x=lambda dy, scale, var, eps: dy * _rate(scale, var, eps),
    scale=lambda dy, x, mean, var, eps: ops.sum_to(dy * (x - mean), mean) * ops.rsqrt(var + eps),
    bias=lambda dy, mean: ops.sum_to(dy, mean),
    mean=lambda dy, mean, scale, var, eps: -_rate(scale, var, eps) * ops.sum_to(dy, mean),
    var=lambda dy, x, scale, mean, var, eps: (
        ops.sum_to(dy * (x - mean), mean) * _rate(scale, var, eps) / (var + eps) * -0.5
    ),
)


def _through_projection(w: T, g: T, h: T, r: T, axes: tuple[int, ...]) -> tuple[T, T, T]:
    """Gradients by g, h and r of sum(w * r * (g - M(g) - h * M(g * h))); r's is not yet summed over `axes`."""

    def mean(t: T) -> T:
        return ops.mean(t, axes=axes, keepdims=True)

    gh, wh = mean(g * h), mean(w * h)
    dg = r * (w - mean(w) - h * wh)
    dh = -r * (w * gh + g * wh)
    return dg, dh, w * (g - mean(g) - h * gh)


def _batch_norm_grad(
    ddx: T, ddscale: T, ddbias: T, dy: T, x: T, scale: T, mean: T, var: T, dvar: T, eps: float
) -> tuple[T, ...]:
    """Gradients of batch_norm_grad by dy, x, scale, mean, var, dmean and dvar."""
    axes = _leading(x)
    r = ops.rsqrt(var + eps)
    u = x - mean
    h = u * r
    g = dy * scale
    dg, dh, by_r = _through_projection(ddx, g, h, r, axes)
    dh = dh + ddscale * dy
    # r also stands in h = u * r.
    dr = ops.sum(by_r + dh * u, axes=axes)
    share = ops.sum_to(ops.full_like(x, value=1.0), mean)  # rows
    du = dh * r
    if dvar is not None:
        du = du + ddx * (dvar * 2.0 / share)
    return (
        dg * scale + ddscale * h + ddbias,
        du,
        ops.sum(dg * dy, axes=axes),
        -ops.sum(du, axes=axes),
        dr * r / (var + eps) * -0.5,
        ops.sum(ddx, axes=axes) / share,
        ops.sum(ddx * u, axes=axes) * 2.0 / share,
    )


joint_rule("batch_norm_grad", "dy x scale mean var dmean dvar", _batch_norm_grad)
