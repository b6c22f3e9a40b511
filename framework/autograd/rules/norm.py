"""Gradients of framework/native/ops/norm.cc.

In all: u = x - mean, h = u * r with r = 1 / sqrt(var + eps), g = dy * scale, and M the mean over the normalised axes;
the gradient by x is r * (g - M(g) - h * M(g * h)), plus what comes through the statistics as outputs.
"""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.autograd.rule_table import joint_rule, through_composition
from framework.ops import internal
from framework.ops.activations import before_activation

T = Any  # Tensor, or None for an absent input


def _leading(x: T) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


def _batch_norm(  # type: ignore[no-untyped-def]
    dy, y, x, scale, bias, residual, mean, var, eps, activation, slope, residual_last, dmean=None, dvar=None
):
    """Gradients of batch_norm by x, scale, bias and residual."""
    how = {"eps": eps, "activation": activation, "slope": slope}
    if activation == "none":
        return *internal.batch_norm_grad(dy, x, scale, mean, var, dmean, dvar, eps=eps), dy
    if residual is None or residual_last:
        return *internal.batch_norm_activation_grad(dy, x, scale, bias, mean, var, dmean, dvar, **how), dy
    return internal.batch_norm_residual_grad(dy, y, x, scale, mean, var, dmean, dvar, **how)


joint_rule("batch_norm", "x scale bias residual", _batch_norm)
through_composition("batch_norm_activation_grad", "batch_norm_residual_grad")


def _rate(scale: T, var: T, eps: float) -> T:
    return scale * ops.rsqrt(var + eps)


def _batch_norm_inference(  # type: ignore[no-untyped-def]
    dy, y, x, scale, bias, mean, var, residual, eps, activation, slope, residual_last
):
    """Gradients of batch_norm_inference by all of its inputs: x, scale, bias, mean, var, residual."""
    dz = dy
    if activation != "none" and residual is not None and not residual_last:
        dz = before_activation(dy, y, activation, slope)
    elif activation != "none":
        normalised = ops.batch_norm_inference(x, scale, bias, mean, var, eps=eps)
        dz = before_activation(dy, normalised, activation, slope)
    rate, total, product = _rate(scale, var, eps), internal.sum_to(dz, mean), internal.sum_to(dz * (x - mean), mean)
    to_var = product * rate / (var + eps) * -0.5
    return dz * rate, product * ops.rsqrt(var + eps), total, -rate * total, to_var, dy if residual_last else dz


joint_rule("batch_norm_inference", "x scale bias mean var residual", _batch_norm_inference)


def _second_order(
    ddx: T, ddscale: T, ddbias: T, dy: T, x: T, scale: T, mean: T, r: T, k: T, axes: tuple[int, ...]
) -> tuple[T, ...]:
    """Gradients of a normalisation's gradient, whose outputs are, with n elements in a mean and extra terms e and k,

        dx = r * (g - M(g) - h * M(g * h)) + e / n + k * u / n,  dscale = sum(dy * h),  dbias = sum(dy)

    by dy, x, scale (not yet summed), mean, r, e and k. The statistics mean, r, e, k have extent 1 on `axes`.
    """

    def average(t: T) -> T:  # no axes would mean all of them
        return ops.mean(t, axes=axes, keepdims=True) if axes else t

    def total(t: T) -> T:
        return ops.sum(t, axes=axes, keepdims=True) if axes else t

    u = x - mean
    h = u * r
    g = dy if scale is None else dy * scale
    along, across = average(g * h), average(ddx * h)
    dg = r * (ddx - average(ddx) - h * across)
    dh = -r * (ddx * along + g * across) + ddscale * dy
    du = dh * r
    if k is not None:
        du = du + ddx * (k / total(ops.full_like(x, value=1.0)))
    ddy = (dg if scale is None else dg * scale) + ddscale * h + ddbias
    # r stands before the bracket and in h = u * r.
    dr = total(ddx * (g - average(g) - h * along) + dh * u)
    return ddy, du, dg * dy, -total(du), dr, average(ddx), average(ddx * u)


def _batch_norm_grad(
    ddx: T, ddscale: T, ddbias: T, dy: T, x: T, scale: T, mean: T, var: T, dvar: T, eps: float
) -> tuple[T, ...]:
    """Gradients of batch_norm_grad by dy, x, scale, mean, var, dmean and dvar."""
    r = ops.rsqrt(var + eps)
    k = None if dvar is None else dvar * 2.0
    ddy, du, scaled, to_mean, dr, e, dk = _second_order(ddx, ddscale, ddbias, dy, x, scale, mean, r, k, _leading(x))
    to_var = ops.reshape_like(dr, var) * r / (var + eps) * -0.5
    e, dk = ops.reshape_like(e, var), ops.reshape_like(dk, var)
    return ddy, du, internal.sum_to(scaled, scale), ops.reshape_like(to_mean, mean), to_var, e, dk * 2.0


joint_rule("batch_norm_grad", "dy x scale mean var dmean dvar", _batch_norm_grad)


def _rstd_gradients(
    ddx: T, ddscale: T, ddbias: T, dy: T, x: T, scale: T, mean: T, rstd: T, drstd: T, axes: tuple[int, ...]
) -> tuple[T, ...]:
    """As _second_order, for statistics mean and rstd: k = -drstd * rstd^3."""
    cube = rstd * rstd * rstd
    k = None if drstd is None else -drstd * cube
    ddy, du, scaled, to_mean, dr, e, dk = _second_order(ddx, ddscale, ddbias, dy, x, scale, mean, rstd, k, axes)
    if drstd is not None:
        dr = dr - dk * drstd * rstd * rstd * 3.0
    return ddy, du, scaled, to_mean, dr, e, -dk * cube


joint_rule(
    "layer_norm",
    "x scale bias",
    lambda dy, x, scale, mean, rstd, dmean=None, drstd=None: internal.layer_norm_grad(
        dy, x, mean, rstd, scale, dmean, drstd
    ),
)


def _residual_layer_norm(  # type: ignore[no-untyped-def]
    dy, sum, mean, rstd, scale, key, p, dsum=None, dmean=None, drstd=None
):
    """Gradients of residual_layer_norm by x, residual, scale and bias."""
    if key is not None:
        return internal.residual_layer_norm_grad(dy, sum, mean, rstd, key, scale, dsum, dmean, drstd, p=p)
    dx, dscale, dbias = internal.layer_norm_grad(dy, sum, mean, rstd, scale, dmean, drstd)
    dx = dx if dsum is None else dx + dsum
    return dx, dx, dscale, dbias


joint_rule("residual_layer_norm", "x residual scale bias", _residual_layer_norm)
through_composition("residual_layer_norm_grad")


def _layer_norm_grad(ddx: T, ddscale: T, ddbias: T, dy: T, x: T, mean: T, rstd: T, scale: T, drstd: T) -> tuple[T, ...]:
    """Gradients of layer_norm_grad by dy, x, mean, rstd, scale, dmean and drstd."""

    def column(t: T) -> T:
        return None if t is None else ops.expand_dims(t, axis=-1)

    ddy, du, scaled, *statistics = _rstd_gradients(
        ddx, ddscale, ddbias, dy, x, scale, column(mean), column(rstd), column(drstd), (x.ndim - 1,)
    )
    dscale = None if scale is None else internal.sum_to(scaled, scale)
    to_mean, to_rstd, to_dmean, to_drstd = (ops.squeeze(t, axis=-1) for t in statistics)
    return ddy, du, to_mean, to_rstd, dscale, to_dmean, to_drstd


joint_rule("layer_norm_grad", "dy x mean rstd scale dmean drstd", _layer_norm_grad)
joint_rule(
    "group_norm",
    "x scale bias",
    lambda dy, x, scale, mean, rstd, groups, dmean=None, drstd=None: internal.group_norm_grad(
        dy, x, scale, mean, rstd, dmean, drstd, groups=groups
    ),
)


def _group_norm_grad(
    ddx: T, ddscale: T, ddbias: T, dy: T, x: T, scale: T, mean: T, rstd: T, drstd: T, groups: int
) -> tuple[T, ...]:
    """Gradients of group_norm_grad by dy, x, scale, mean, rstd, dmean and drstd."""

    def image(t: T) -> T:  # [N, ..., C] -> [N, pixels, groups, C / groups]
        flat = ops.expand_dims(t, axis=1) if t.ndim == 2 else ops.flatten(t, start=1, end=-2)
        return ops.reshape(flat, shape=(0, 0, groups, -1))

    def channel(t: T) -> T:  # [C] -> [groups, C / groups]
        return ops.reshape(t, shape=(groups, -1))

    def statistic(t: T) -> T:  # [N, groups] -> [N, 1, groups, 1]
        return None if t is None else ops.expand_dims(ops.expand_dims(t, axis=1), axis=-1)

    grouped = channel(scale)
    ddy, du, scaled, *statistics = _rstd_gradients(
        image(ddx),
        channel(ddscale),
        channel(ddbias),
        image(dy),
        image(x),
        grouped,
        statistic(mean),
        statistic(rstd),
        statistic(drstd),
        (1, 3),
    )
    dscale = ops.reshape_like(internal.sum_to(scaled, grouped), scale)
    return ops.reshape_like(ddy, dy), ops.reshape_like(du, x), dscale, *[ops.reshape_like(t, mean) for t in statistics]


joint_rule("group_norm_grad", "dy x scale mean rstd dmean drstd", _group_norm_grad)
joint_rule(
    "rms_norm",
    "x scale",
    lambda dy, x, scale, rstd, drstd=None: internal.rms_norm_grad(dy, x, rstd, scale, drstd),
)
through_composition("rms_norm_grad")
