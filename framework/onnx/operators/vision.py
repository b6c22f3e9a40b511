"""Boxes, regions and sampling of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import constant, extents, to_back, to_front
from framework.onnx.operators.shapes import prod
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("NonMaxSuppression", since=10)
def non_max_suppression(
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    iou: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """Kept boxes as (image, class, box): boxes [N, M, 4], scores [N, K, M]; how many depends on the data."""
    count = 0 if most is None else node.ints(most, "maximum")[0]
    overlap = 0.0 if iou is None else float(node.host(iou, "threshold").reshape(-1)[0])
    threshold = None if least is None else float(node.host(least, "threshold").reshape(-1)[0])
    corners = _corners(node.host(boxes, "boxes"), bool(node.attr("center_point_box", 0)))
    found = []
    values = node.host(scores, "scores")
    count = min(count, values.shape[2])
    for n, k in np.ndindex(*values.shape[:2]) if count > 0 else ():
        keep, kept = ops.nms(
            constant(corners[n], "float32"),
            constant(values[n, k], "float32"),
            iou_threshold=overlap,
            score_threshold=-1e30 if threshold is None else threshold,
            max_outputs=count,
        )
        found += [(n, k, int(i)) for i in keep.numpy()[: int(kept)]]
    return constant(np.array(found, np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """[..., 4] as (x1, y1, x2, y2)."""
    if centred:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1)
    y1, x1, y2, x2 = np.moveaxis(boxes, -1, 0)
    return np.stack([np.minimum(x1, x2), np.minimum(y1, y2), np.maximum(x1, x2), np.maximum(y1, y2)], -1)


@onnx_op("Col2Im", since=18)
def col2im(node: Node, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Columns [N, C * taps, windows] summed into images [N, C, *image]."""
    size, kernel = node.ints(image, "image shape"), node.ints(block, "block shape")
    axes = len(size)
    strides, dilations = node.attr("strides") or [1] * axes, node.attr("dilations") or [1] * axes
    pads = node.attr("pads") or [0] * (2 * axes)
    padded = [n + pads[i] + pads[i + axes] for i, n in enumerate(size)]
    node.limit(padded)
    places = np.zeros((1, 1), np.int64)  # [taps, windows] in the padded image
    for n, k, s, d in zip(padded, kernel, strides, dilations, strict=True):
        count = (n - d * (k - 1) - 1) // s + 1
        if places.size * k * count > prod(extents(x)):
            raise ValueError(f"{extents(x)} holds no columns of {kernel} windows over {size}")
        starts = np.arange(count) * s
        table = np.arange(k)[:, None] * d + starts
        places = places[:, None, :, None] * n + table[None, :, None, :]
        places = places.reshape(places.shape[0] * places.shape[1], -1)
    n, rows, _ = extents(x)
    c = rows // places.shape[0]
    flat = ops.reshape(x, shape=[n, c, places.size])
    zeros = ops.full(shape=[n, c, prod(padded)], value=0.0, dtype=x.dtype)
    summed = ops.scatter_add(zeros, constant(places.reshape(-1)), flat, axis=2)
    y = ops.reshape(summed, shape=[n, c, *padded])
    starts = [pads[i] for i in range(axes)]
    return ops.slice(
        y, starts=starts, ends=[a + b for a, b in zip(starts, size, strict=True)], axes=[*range(2, 2 + axes)]
    )


# -- sampling at fractional places
_OURS = {"linear": "bilinear", "nearest": "nearest"}


@onnx_op("GridSample", since=16, compute="float")
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """x [N, C, *spatial] read at grid [N, *out, axes], coordinates in [-1, 1], the last axis first."""
    aligned = bool(node.attr("align_corners", 0))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.attr("mode", "linear"), node.attr("mode", "linear"))
    if x.ndim == 4 and mode in _OURS:
        y = ops.grid_sample(to_front(x), grid, _OURS[mode], node.attr("padding_mode", "zeros"), aligned)
        return to_back(y)
    spatial = extents(x)[2:]
    coordinates = []
    for i, part in enumerate(ops.split(grid, axis=-1, sizes=[1] * len(spatial))):
        n = spatial[len(spatial) - 1 - i]
        v = ops.squeeze(part, axis=-1)
        coordinates.append((v + 1.0) * ((n - 1) / 2) if aligned else ((v + 1.0) * float(n) - 1.0) * 0.5)
    return _sampled(x, coordinates[::-1], mode, node.attr("padding_mode", "zeros"), aligned)


def _reflected(at: Tensor, n: int, aligned: bool) -> Tensor:
    low, span = (0.0, n - 1.0) if aligned else (-0.5, float(n))
    if span == 0:
        return at * 0.0
    folded = ops.mod(at - low, 2 * span)
    return ops.minimum(folded, 2 * span - folded) + low


def _sampled(x: Tensor, coordinates: list[Tensor], mode: str, padding: str, aligned: bool) -> Tensor:
    spatial = extents(x)[2:]
    if padding == "reflection" and mode != "cubic":
        coordinates = [_reflected(c, n, aligned) for c, n in zip(coordinates, spatial, strict=True)]
    if padding == "border" and mode != "cubic":
        coordinates = [ops.clip(c, min=0.0, max=n - 1.0) for c, n in zip(coordinates, spatial, strict=True)]
    per_axis = [_taps(c, mode) for c in coordinates]
    total = None
    for taps in np.ndindex(*(len(t) for t in per_axis)):
        chosen = [per_axis[a][t] for a, t in enumerate(taps)]
        value = _read(x, [place for place, _ in chosen], padding, aligned)
        for _, weight in chosen:
            value = value if weight is None else value * ops.expand_dims(weight, axis=1)
        total = value if total is None else total + value
    assert total is not None
    return total


def _taps(c: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """(place, weight) of each neighbour along one axis."""
    if mode == "nearest":
        return [(ops.round(c), None)]
    base = ops.floor(c)
    f = c - base
    if mode == "linear":
        return [(base, 1.0 - f), (base + 1.0, f)]
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

    return [(base - 1.0, far(f + 1.0)), (base, near(f)), (base + 1.0, near(1.0 - f)), (base + 2.0, far(2.0 - f))]


def _read(x: Tensor, places: list[Tensor], padding: str, aligned: bool) -> Tensor:
    """x at whole places [N, *out] of each axis: [N, C, *out]; what lies outside is 0, the edge, or mirrored."""
    n, c, *spatial = extents(x)
    flat, inside = None, None
    for p, extent in zip(places, spatial, strict=True):
        if padding == "reflection":
            p = ops.round(_reflected(p, extent, aligned))
        ok = ops.logical_and(ops.greater_equal(p, 0.0), ops.less_equal(p, extent - 1.0))
        inside = ok if inside is None else ops.logical_and(inside, ok)
        whole = ops.cast(ops.clip(p, min=0.0, max=extent - 1.0), dtype="int64")
        flat = whole if flat is None else flat * extent + whole
    assert flat is not None and inside is not None
    out = list(extents(flat)[1:])
    rows = ops.reshape(flat, shape=[n, 1, prod(out)])
    table = ops.broadcast_to(rows, shape=[n, c, prod(out)])
    taken = ops.take_along_axis(ops.reshape(x, shape=[n, c, prod(spatial)]), table, axis=2)
    taken = ops.reshape(taken, shape=[n, c, *out])
    if padding != "zeros":
        return taken
    return taken * ops.expand_dims(ops.cast(inside, dtype=x.dtype), axis=1)


@onnx_op("RoiAlign", since=10, compute="float")
def roi_align(node: Node, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Means (or maxima) of bilinear samples in each cell of each box: x [N, C, H, W], rois [M, 4] -> [M, C, P, Q]."""
    rows, columns = node.attr("output_height", 1), node.attr("output_width", 1)
    ratio, scale = node.attr("sampling_ratio", 0), node.attr("spatial_scale", 1.0)
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    half = node.attr("coordinate_transformation_mode", default) == "half_pixel"
    boxes = node.host(rois, "regions").astype(np.float64) * scale - (0.5 if half else 0.0)
    images = node.host(batch, "batch indices")
    _, c, h, w = extents(x)
    node.limit([len(boxes), c, rows, columns])
    outputs = []
    for (x1, y1, x2, y2), image in zip(boxes, images, strict=True):
        height, width = (y2 - y1, x2 - x1) if half else (max(y2 - y1, 1.0), max(x2 - x1, 1.0))
        matrix_y = _sample_rows(y1, height, rows, ratio, h)
        matrix_x = _sample_rows(x1, width, columns, ratio, w)
        picture = ops.gather(x, constant(int(image), "int64"), axis=0)  # [C, H, W]
        outputs.append(_pooled(picture, matrix_y, matrix_x, node.attr("mode", "avg")))
    if not outputs:
        return ops.full(shape=[0, c, rows, columns], value=0.0, dtype=x.dtype)
    return ops.stack(outputs, axis=0)


def _sample_rows(start: float, extent: float, cells: int, ratio: int, n: int) -> np.ndarray:
    """[cells, samples, n]: the weight of each pixel in each sample along one axis."""
    samples = ratio if ratio > 0 else max(1, int(np.ceil(extent / cells)))
    offsets = (np.arange(samples) + 0.5) / samples
    at = start + (np.arange(cells)[:, None] + offsets) * extent / cells
    out = np.zeros((cells, samples, n))
    for i, j in np.ndindex(cells, samples):
        v = float(at[i, j])
        if not -1.0 <= v <= n:
            continue
        v = min(max(v, 0.0), n - 1.0)
        low = min(int(v), n - 1)
        high = min(low + 1, n - 1)
        out[i, j, low] += 1 - (v - low)
        out[i, j, high] += v - low
    return out


def _pooled(picture: Tensor, rows: np.ndarray, columns: np.ndarray, mode: str) -> Tensor:
    if mode == "avg":
        left, right = constant(rows.mean(1), picture.dtype), constant(columns.mean(1).T, picture.dtype)
        return ops.matmul(ops.matmul(left, picture), right)
    return _largest(picture, rows, columns)


def _largest(picture: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """The largest of the weighted neighbours of all samples of a cell, as ONNX defines its 'max'."""
    p, sy, h = rows.shape
    q, sx, w = columns.shape
    cells = []
    for i, j in np.ndindex(p, q):
        weights = [
            np.outer(_only(rows[i, a], y), _only(columns[j, b], x))
            for a, b in np.ndindex(sy, sx)
            for y in _places(rows[i, a])
            for x in _places(columns[j, b])
        ]
        stacked = constant(np.array(weights).reshape(len(weights), h * w).T, picture.dtype)
        flat = ops.reshape(picture, shape=[-1, h * w])
        cells.append(ops.max(ops.matmul(flat, stacked), axes=[1]))
    return ops.reshape(ops.stack(cells, axis=1), shape=[-1, p, q])


def _places(v: np.ndarray) -> Any:
    found = np.flatnonzero(v)
    return found if len(found) else [0]


def _only(v: np.ndarray, i: int) -> np.ndarray:
    one = np.zeros_like(v)
    one[i] = v[i]
    return one
