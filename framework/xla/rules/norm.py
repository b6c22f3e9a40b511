"""Normalisations and their gradients. Statistics are computed in float32 for half types."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from framework.xla.lower import Array, Call, rule, wide
from framework.xla.rules.conv import finished


def _others(x: Array) -> tuple[int, ...]:
    """All axes but that of channels."""
    return tuple(range(x.ndim - 1))


def _rate(var: Array, eps: float) -> Array:
    return 1 / jnp.sqrt(var + np.asarray(eps, var.dtype))


@rule("batch_norm")
def _batch_norm(
    call: Call,
    x: Array,
    scale: Array,
    bias: Array,
    residual: Array | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
    residual_last: bool,
) -> tuple[Array, Array, Array]:
    x = wide(x)
    mean = jnp.mean(x, _others(x))
    far = x - mean
    var = jnp.mean(far * far, _others(x))
    y = far * (_rate(var, eps) * wide(scale)) + wide(bias)
    return finished(y, None if residual is None else wide(residual), activation, slope, residual_last), mean, var


@rule("batch_norm_inference")
def _batch_norm_inference(
    call: Call,
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    residual: Array | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
    residual_last: bool,
) -> Array:
    y = (wide(x) - wide(mean)) * (_rate(wide(var), eps) * wide(scale)) + wide(bias)
    return finished(y, None if residual is None else wide(residual), activation, slope, residual_last)


@rule("batch_norm_grad")
def _batch_norm_grad(
    call: Call,
    dy: Array,
    x: Array,
    scale: Array,
    mean: Array,
    var: Array,
    dmean: Array | None = None,
    dvar: Array | None = None,
    *,
    eps: float,
) -> tuple[Array, Array, Array]:
    dy, far = wide(dy), wide(x) - wide(mean)
    rate, axes = _rate(wide(var), eps), _others(x)
    n = np.asarray(max(x.size // max(x.shape[-1], 1), 1), dy.dtype)
    dbias, dscale = jnp.sum(dy, axes), jnp.sum(dy * far, axes) * rate
    dx = (dy - dbias / n - far * (rate * dscale / n)) * (rate * wide(scale))
    if dmean is not None:
        dx = dx + wide(dmean) / n
    if dvar is not None:
        dx = dx + far * (2 / n * wide(dvar))
    return dx, dscale, dbias


@rule("layer_norm")
def _layer_norm(
    call: Call, x: Array, scale: Array | None = None, bias: Array | None = None, *, eps: float
) -> tuple[Array, Array, Array]:
    x = wide(x)
    mean = jnp.mean(x, -1)
    far = x - mean[..., None]
    rate = _rate(jnp.mean(far * far, -1), eps)
    y = far * rate[..., None]
    y = y if scale is None else y * wide(scale)
    return y if bias is None else y + wide(bias), mean, rate


@rule("layer_norm_grad")
def _layer_norm_grad(
    call: Call,
    dy: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    scale: Array | None = None,
    dmean: Array | None = None,
    drstd: Array | None = None,
) -> tuple[Array, Array, Array]:
    dy, rate = wide(dy), wide(rstd)[..., None]
    unit = (wide(x) - wide(mean)[..., None]) * rate
    g = dy if scale is None else dy * wide(scale)
    width = np.asarray(x.shape[-1], g.dtype)
    dx = rate * (g - jnp.mean(g, -1, keepdims=True) - unit * jnp.mean(g * unit, -1, keepdims=True))
    if dmean is not None:
        dx = dx + wide(dmean)[..., None] / width
    if drstd is not None:
        dx = dx - wide(drstd)[..., None] * rate * rate * unit / width
    return dx, jnp.sum(dy * unit, _others(x)), jnp.sum(dy, _others(x))


def _grouped(x: Array, groups: int) -> Array:
    """[N, ..., C] -> [N, pixels, groups, C / groups]."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:-1]), groups, x.shape[-1] // groups)


@rule("group_norm")
def _group_norm(
    call: Call, x: Array, scale: Array, bias: Array, *, groups: int, eps: float
) -> tuple[Array, Array, Array]:
    parts = _grouped(wide(x), groups)
    mean = jnp.mean(parts, (1, 3))
    far = parts - mean[:, None, :, None]
    rate = _rate(jnp.mean(far * far, (1, 3)), eps)
    y = (far * rate[:, None, :, None]).reshape(x.shape)
    return y * wide(scale) + wide(bias), mean, rate


@rule("group_norm_grad")
def _group_norm_grad(
    call: Call,
    dy: Array,
    x: Array,
    scale: Array,
    mean: Array,
    rstd: Array,
    dmean: Array | None = None,
    drstd: Array | None = None,
    *,
    groups: int,
) -> tuple[Array, Array, Array]:
    def spread(a: Array) -> Array:
        return wide(a)[:, None, :, None]

    dy, rate = wide(dy), spread(rstd)
    unit = (_grouped(wide(x), groups) - spread(mean)) * rate
    g = _grouped(dy * wide(scale), groups)
    count = np.asarray(max(unit.shape[1] * unit.shape[3], 1), g.dtype)
    dx = rate * (g - jnp.mean(g, (1, 3), keepdims=True) - unit * jnp.mean(g * unit, (1, 3), keepdims=True))
    if dmean is not None:
        dx = dx + spread(dmean) / count
    if drstd is not None:
        dx = dx - spread(drstd) * rate * rate * unit / count
    return dx.reshape(x.shape), jnp.sum(dy * unit.reshape(x.shape), _others(x)), jnp.sum(dy, _others(x))
