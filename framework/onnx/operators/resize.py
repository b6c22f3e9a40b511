"""Resize of ONNX, axis by axis: each axis is a matrix of weights, made from its extents, times the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, constant, extents, is_float, moved, to_back, to_front
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("Upsample")
def upsample_7(node: Node, x: Tensor, scales: Tensor | None = None) -> Tensor:
    """The predecessor of Resize: floor of out / scale."""
    if scales is None:  # version 1 has two attributes
        factors = node.attr("scales") or [1.0, 1.0, node.attr("height_scale"), node.attr("width_scale")]
    else:
        factors = [float(s) for s in node.host(scales, "scales")]
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}[node.attr("mode", "nearest")]
    sizes = [int(np.floor(n * f)) for n, f in zip(extents(x), factors, strict=True)]
    return _resized(node, x, mode, "asymmetric", "floor", list(range(x.ndim)), list(factors), sizes)


@onnx_op("Resize")
def resize_10(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    """As Upsample."""
    return upsample_7(node, x, scales)


@onnx_op("Resize", since=11)
def resize(
    node: Node, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    """By scales or sizes; nearest, linear or cubic."""
    axes = [axis_of(a, x.ndim) for a in node.attr("axes") or range(x.ndim)]
    have = [extents(x)[a] for a in axes] if not _plain_nearest(node, x, scales, axes) else []
    if scales is not None and scales.size:
        factors = [float(s) for s in node.host(scales, "scales")]
        if not have:
            return _by_scale(x, factors)
        wanted = [int(np.floor(n * f)) for n, f in zip(have, factors, strict=True)]
    else:
        assert sizes is not None
        wanted = node.ints(sizes, "sizes")
        factors, wanted = _kept_ratio(node.attr("keep_aspect_ratio_policy", "stretch"), have, wanted)
    node.limit(wanted)
    crop = node.attr("coordinate_transformation_mode", "half_pixel")
    limits = [float(v) for v in node.host(roi, "roi")] if crop == "tf_crop_and_resize" and roi is not None else []
    mode, rounding = node.attr("mode", "nearest"), node.attr("nearest_mode", "round_prefer_floor")
    return _resized(node, x, mode, crop, rounding, axes, factors, wanted, limits)


def _plain_nearest(node: Node, x: Tensor, scales: Tensor | None, axes: Sequence[int]) -> bool:
    """Whole factors of height and width by repetition: the core's own operator, for every image size."""
    if not is_float(x) and x.dtype not in ("uint8", "int8"):
        return False
    if scales is None or not scales.size or scales.is_traced or node.attr("mode", "nearest") != "nearest":
        return False
    if node.attr("coordinate_transformation_mode", "half_pixel") != "asymmetric":
        return False
    factors = node.host(scales, "scales")
    whole = bool((factors == np.floor(factors)).all() and (factors >= 1).all())
    pictures = list(axes) == [0, 1, 2, 3] and bool((factors[:2] == 1).all())
    return whole and pictures and node.attr("nearest_mode", "") == "floor"


def _by_scale(x: Tensor, factors: Sequence[float]) -> Tensor:
    return to_back(ops.resize_nearest(to_front(x), scale=list(factors[2:])))


def _kept_ratio(policy: str, have: Sequence[int], wanted: Sequence[int]) -> tuple[list[float], list[int]]:
    factors = [w / n for w, n in zip(wanted, have, strict=True)]
    if policy == "stretch":
        return factors, list(wanted)
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(have), [int(np.floor(factor * n + 0.5)) for n in have]


def _resized(
    node: Node,
    x: Tensor,
    mode: str,
    coordinates: str,
    rounding: str,
    axes: Sequence[int],
    factors: Sequence[float],
    sizes: Sequence[int],
    roi: Sequence[float] = (),
) -> Tensor:
    if mode not in ("nearest", "linear", "cubic"):
        raise node.fail(f"mode '{mode}' is not supported; nearest, linear and cubic are")
    dtype = x.dtype
    outside = None
    for i, (axis, factor, size) in enumerate(zip(axes, factors, sizes, strict=True)):
        n = extents(x)[axis]
        if size == n and factor == 1.0 and not roi:
            continue
        limits = (roi[i], roi[i + len(axes)]) if roi else (0.0, 1.0)
        at = _sources(coordinates, np.arange(size), n, size, factor, limits)
        if coordinates == "tf_crop_and_resize":
            beyond = (at < 0) | (at > n - 1)
            beyond = beyond.reshape(-1, *(1 for _ in range(x.ndim - axis - 1)))
            outside = beyond if outside is None else outside | beyond
        if mode == "nearest":
            x = ops.gather(x, constant(np.clip(_rounded(rounding, at), 0, n - 1), "int64"), axis=axis)
            continue
        weights = _weights(node, mode, at, n, factor)
        x = x if is_float(x) else ops.cast(x, dtype="float32" if "float" in dtype else "float64")
        last = moved(x, axis, -1)
        x = moved(ops.matmul(last, constant(weights.T, x.dtype)), -1, axis)
    if x.dtype != dtype:
        x = ops.cast(x, dtype=dtype)
    if outside is not None and outside.any():
        fill = ops.full(shape=(), value=node.attr("extrapolation_value", 0.0), dtype=dtype)
        x = ops.where(constant(outside), fill, x)
    return x


def _sources(mode: str, o: np.ndarray, n: int, size: int, factor: float, limits: tuple[float, float]) -> np.ndarray:
    """Where each output position lies in the input."""
    x = o.astype(np.float64)
    if mode == "align_corners":
        return x * ((n - 1) / (factor * n - 1)) if size > 1 else np.zeros_like(x)
    if mode == "asymmetric":
        return x / factor
    if mode == "tf_crop_and_resize":
        start, end = limits
        if size > 1:
            return start * (n - 1) + x * (end - start) * (n - 1) / (size - 1)
        return np.full_like(x, 0.5 * (start + end) * (n - 1))
    if mode == "pytorch_half_pixel":
        return (x + 0.5) / factor - 0.5 if size > 1 else np.zeros_like(x)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / factor
    if mode == "half_pixel_symmetric":
        adjustment = size / (factor * n)
        centre = n / 2
        return centre * (1 - adjustment) + (x + 0.5) / factor - 0.5
    if mode == "half_pixel":
        return (x + 0.5) / factor - 0.5
    raise ValueError(f"coordinate_transformation_mode '{mode}'")


_ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _rounded(mode: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(_ROUND[mode](x), np.int64)


def _weights(node: Node, mode: str, at: np.ndarray, n: int, factor: float) -> np.ndarray:
    """[size, n]: each output as a mean of inputs; those beyond the edge count as the edge, or not at all."""
    stretch = min(factor, 1.0) if node.attr("antialias", 0) else 1.0
    a = node.attr("cubic_coeff_a", -0.75)
    reach = 1.0 if mode == "linear" else 2.0
    size = len(at)
    node.limit([2, size, n])
    taps = int(np.ceil(reach / stretch))
    node.steps(2 * taps)
    weights = np.zeros((size, n))
    base = np.floor(at)
    for k in range(-taps + 1, taps + 1):
        place = base + k
        distance = np.abs(at - place) * stretch
        w = np.maximum(0.0, 1.0 - distance) if mode == "linear" else _cubic(distance, a)
        inside = (place >= 0) & (place < n)
        if node.attr("exclude_outside", 0):
            w = np.where(inside, w, 0.0)
        np.add.at(weights, (np.arange(size), np.clip(place, 0, n - 1).astype(np.int64)), w)
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1.0, total))


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel (1981)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
