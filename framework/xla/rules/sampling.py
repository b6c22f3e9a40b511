"""Operators that read pixels at places that are data: grid_sample, roi_align and deformable convolution.

Their gradients are those that JAX derives of the same expressions by the pixels and, where the native operator has
it, by the places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from framework.xla.lower import Array, Call, rule, wide
from framework.xla.rules.boxes import has_area


def _reflected(at: Array, low: float, span: float) -> Array:
    """Mirrored at `low` and `low + span` as often as it takes."""
    if span == 0:
        return jnp.where(jnp.isnan(at), at, 0)
    away = jnp.abs(at - low)
    turns = lax.stop_gradient(jnp.floor(away / span))
    rest = away - turns * span
    return low + jnp.where(turns % 2 != 0, span - rest, rest)


def _places(v: Array, extent: int, padding: str, align_corners: bool) -> Array:
    """Where numbers of the grid lie along an axis, in pixels, in float64."""
    v = v.astype(jnp.float64)
    at = (v + 1) * ((extent - 1) / 2) if align_corners else ((v + 1) * extent - 1) / 2
    if padding == "reflection":
        at = _reflected(at, 0.0 if align_corners else -0.5, float(extent - 1 if align_corners else extent))
    if padding != "zeros":
        inside = (at > 0) & (at < extent - 1)
        at = jnp.where(
            inside, at, lax.stop_gradient(jnp.where(at <= 0, 0.0, jnp.where(at >= extent - 1, extent - 1.0, at)))
        )
    return at


def _pixels(x: Array, rows: Array, columns: Array) -> Array:
    """x[n, rows, columns], 0 outside of the image.  x: [N, H, W, C]; rows, columns: [N, ...]."""
    height, width = x.shape[1:3]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    r = jnp.clip(jnp.where(inside, rows, 0), 0, max(height - 1, 0)).astype(jnp.int32)
    c = jnp.clip(jnp.where(inside, columns, 0), 0, max(width - 1, 0)).astype(jnp.int32)
    n = jnp.arange(x.shape[0]).reshape(-1, *[1] * (r.ndim - 1))
    return jnp.where(inside[..., None], x[n, r, c], 0)


def bilinear(x: Array, y: Array, at: Array) -> Array:
    """Pixels interpolated at rows `y` and columns `at`, float64 [N, ...]; 0 outside; [N, ..., C]."""
    row, column = (lax.stop_gradient(jnp.floor(v)) for v in (y, at))
    below, right = y - row, at - column
    out = jnp.zeros((), x.dtype)
    for dr, dc in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (below if dr else 1 - below) * (right if dc else 1 - right)
        out = out + _pixels(x, row + dr, column + dc) * weight[..., None].astype(x.dtype)
    return out


def _sampled(x: Array, grid: Array, mode: str, padding: str, align_corners: bool) -> Array:
    if not x.size:
        return jnp.zeros((*grid.shape[:3], x.shape[3]), x.dtype)
    at = _places(grid[..., 0], x.shape[2], padding, align_corners)
    y = _places(grid[..., 1], x.shape[1], padding, align_corners)
    strange = jnp.isnan(at) | jnp.isnan(y)
    at, y = (jnp.where(strange, 0.0, v) for v in (at, y))
    out = _pixels(x, jnp.round(y), jnp.round(at)) if mode == "nearest" else bilinear(x, y, at)
    return jnp.where(strange[..., None], jnp.nan, out)


@rule("grid_sample")
def _grid_sample(call: Call, x: Array, grid: Array, *, mode: str, padding: str, align_corners: bool) -> Array:
    return _sampled(wide(x), wide(grid), mode, padding, align_corners)


def _sampled_grad(
    dy: Array, x: Array, grid: Array, mode: str, padding: str, align_corners: bool
) -> tuple[Array, Array]:
    # A place that is NaN reads pixel (0, 0) with the weight NaN: so goes its gradient.
    strange = jnp.any(jnp.isnan(grid), -1)
    _, back = jax.vjp(
        lambda a, g: _sampled(a, g, mode, padding, align_corners), x, jnp.where(jnp.isnan(grid), 0.0, grid)
    )
    dx, dgrid = back(jnp.where(strange[..., None], 0, dy))
    if mode == "nearest":
        dgrid = jnp.zeros_like(grid)
    poisoned = jnp.any(strange, (1, 2))[:, None]
    if dx.size:
        dx = dx.at[:, 0, 0].set(jnp.where(poisoned, jnp.nan, dx[:, 0, 0]))
    return dx, jnp.where(strange[..., None], 0, dgrid)


@rule("grid_sample_grad")
def _grid_sample_grad(call: Call, dy: Array, x: Array, grid: Array, **how: Any) -> tuple[Array, Array]:
    return _sampled_grad(wide(dy), wide(x), wide(grid), **how)


@rule("grid_sample_grad_grad")
def _grid_sample_grad_grad(
    call: Call, ddx: Array, ddgrid: Array, dy: Array, x: Array, grid: Array, **how: Any
) -> tuple[Array, ...]:
    _, back = jax.vjp(lambda *given: _sampled_grad(*given, **how), wide(dy), wide(x), wide(grid))
    ddy, dx, dgrid = back((wide(ddx), wide(ddgrid)))
    return jnp.where(jnp.any(jnp.isnan(grid), -1)[..., None], jnp.nan, ddy), dx, dgrid


# -- regions
def _axis_weights(start: Array, extent: Array, bins: int, sampling: int, pixels: int, dtype: Any) -> Array:
    """How much each bin of each region reads each pixel of an axis: [R, bins, pixels], each bin's sum at most 1."""
    bin_size = extent / bins
    points = jnp.full_like(bin_size, sampling) if sampling > 0 else jnp.clip(jnp.ceil(bin_size), 1.0, 1024.0)
    most = sampling if sampling > 0 else min(1024, max(1, math.ceil((pixels + 2) / 1)))
    out = jnp.zeros((*start.shape, bins, pixels), jnp.float64)
    base = start[:, None] + jnp.arange(bins) * bin_size[:, None]

    def add(i: Array, out: Array) -> Array:
        at = base + (i + 0.5) * (bin_size / points)[:, None]
        inside = (at >= -1) & (at <= pixels) & (i < points)[:, None]
        at = jnp.clip(at, 0.0, pixels - 1.0)
        share = jnp.where(inside, 1 / points[:, None], 0)
        column = jnp.arange(pixels)
        tent = jnp.maximum(1 - jnp.abs(at[..., None] - column), 0)  # the weights of linear interpolation
        return out + share[..., None] * tent

    if sampling > 0:
        for i in range(most):
            out = add(jnp.float64(i), out)
        return out.astype(dtype)
    count = jnp.max(points, initial=0.0)
    _, out = lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, add(s[0], s[1])), (jnp.float64(0), out))
    return out.astype(dtype)


def _region_weights(
    boxes: Array,
    count: Array | None,
    maps: Sequence[Any],
    *,
    size: int,
    strides: tuple[float, ...],
    sampling: int,
    aligned: bool,
    canonical_size: float,
    canonical_level: int,
) -> list[tuple[Array, Array]]:
    """For each map the weights of rows and of columns for every region, zeros for regions read from other maps."""
    images, each = boxes.shape[:2]
    b = boxes.astype(jnp.float64)
    width, height = b[..., 2] - b[..., 0], b[..., 3] - b[..., 1]
    counts = has_area(boxes) & jnp.isfinite(width * height)
    if count is not None:
        counts &= jnp.arange(each)[None, :] < count[:, None]
    area = jnp.where(counts, width * height, 1.0)
    wanted = canonical_level + jnp.log2(jnp.sqrt(area) / canonical_size) + 1e-6
    level = jnp.clip(jnp.floor(wanted), 0, len(maps) - 1)
    shift, least = (0.5, 0.0) if aligned else (0.0, 1.0)
    weights = []
    for i, one in enumerate(maps):
        mine = (counts & (level == i)).reshape(-1)
        scale = 1 / strides[i]

        def along(
            start: Array, extent: Array, pixels: int, mine: Array = mine, scale: float = scale, dtype: Any = one.dtype
        ) -> Array:
            at = jnp.where(mine, start.reshape(-1) * scale - shift, 0.0)
            size_there = jnp.where(mine, jnp.maximum(extent.reshape(-1) * scale, least), 1.0)
            w = _axis_weights(at, size_there, size, sampling, pixels, dtype)
            return jnp.where(mine[:, None, None], w, 0).reshape(images, each, size, pixels)

        weights.append((along(b[..., 1], height, one.shape[1]), along(b[..., 0], width, one.shape[2])))
    return weights


def _read(maps: Sequence[Array], weights: Sequence[tuple[Array, Array]], shape: tuple[int, ...]) -> Array:
    out = jnp.zeros(shape, maps[0].dtype)
    for one, (rows, columns) in zip(maps, weights, strict=True):
        if one.shape[1] and one.shape[2]:
            mixed = jnp.einsum("nrph,nhwc->nrpwc", rows, one, precision=lax.Precision.HIGHEST)
            bins = jnp.einsum("nrqw,nrpwc->nrpqc", columns, mixed, precision=lax.Precision.HIGHEST)
            out = out + bins.reshape(shape)
    return out


@rule("roi_align")
def _roi_align(call: Call, boxes: Array, count: Array | None, *maps: Array, **attrs: Any) -> Array:
    wides = [wide(m) for m in maps]
    if not math.prod(call.shape):
        return jnp.zeros(call.shape, wides[0].dtype)
    return _read(wides, _region_weights(boxes, count, wides, **attrs), call.shape)


@rule("roi_align_grad")
def _roi_align_grad(
    call: Call, dy: Array, boxes: Array, count: Array | None, *maps: Array, **attrs: Any
) -> list[Array]:
    wides = [jax.ShapeDtypeStruct(m.shape, wide(m).dtype) for m in maps]
    if not dy.size:
        return [jnp.zeros(m.shape, m.dtype) for m in wides]
    weights = _region_weights(boxes, count, wides, **attrs)
    back = jax.linear_transpose(lambda *ms: _read(ms, weights, dy.shape), *wides)
    return list(back(wide(dy)))


# -- deformable convolution
def _deformed(
    x: Array,
    offset: Array,
    weight: Array,
    mask: Array | None,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    images, _, _, channels = x.shape
    outputs, taps_h, taps_w, _ = weight.shape
    rows, columns = offset.shape[1:3]
    taps = taps_h * taps_w
    parts = offset.shape[3] // (2 * taps)
    top = padding[0]
    left = padding[2] if len(padding) == 4 else padding[-1]
    by = offset.reshape(images, rows, columns, parts, taps, 2).astype(jnp.float64)
    tap = np.arange(taps)
    y = (np.arange(rows) * stride[0] - top)[:, None, None, None] + (tap // taps_w * dilation[0])
    z = (np.arange(columns) * stride[-1] - left)[None, :, None, None] + (tap % taps_w * dilation[-1])
    read = []
    for g in range(parts):  # the channels of one offset group
        own = x[..., g * channels // parts : (g + 1) * channels // parts]
        read.append(bilinear(own, y[:, :, 0] + by[..., g, :, 0], z[:, :, 0] + by[..., g, :, 1]))
        if mask is not None:
            read[-1] = read[-1] * mask.reshape(images, rows, columns, parts, taps)[..., g, :, None]
    lines = jnp.concatenate(read, -1).reshape(images, rows, columns, taps, groups, channels // groups)
    kernel = weight.reshape(groups, outputs // groups, taps, channels // groups)
    out = jnp.einsum("npqtgc,gktc->npqgk", lines, kernel)
    return out.reshape(images, rows, columns, outputs)


@rule("deform_conv2d")
def _deform_conv2d(
    call: Call,
    x: Array,
    offset: Array,
    weight: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    **window: Any,
) -> Array:
    y = _deformed(wide(x), wide(offset), wide(weight), None if mask is None else wide(mask), **window)
    return y if bias is None else y + wide(bias)


@rule("deform_conv2d_grad")
def _deform_conv2d_grad(
    call: Call, dy: Array, x: Array, offset: Array, weight: Array, mask: Array | None = None, **window: Any
) -> tuple[Array, ...]:
    ones = jnp.ones(call.types[3][0], x.dtype) if mask is None else mask
    inputs = [wide(a) for a in (x, offset, weight, ones)]
    _, back = jax.vjp(lambda *given: _deformed(*given, **window), *inputs)
    return back(wide(dy))
