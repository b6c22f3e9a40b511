"""Anchor boxes of a grid detector: which anchor belongs to which level, and where the cells lie.

Letters: N batch, H W a level's grid, A anchors a cell, P = H * W * A predictions of a level, K classes, M boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor

COCO_ANCHORS = ((10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326))


@dataclass(frozen=True)
class Level:
    """One output grid.

    Attributes:
        stride: pixels a cell is wide and high.
        first: number of its first anchor among all anchors.
        anchors: float32 [A, 2], width and height in pixels of the network's input.
        scale_xy: factor s on the centre's place in its cell, see `place_in_cell`.
    """

    stride: int
    first: int
    anchors: np.ndarray
    scale_xy: float = 1.0


def split_anchors(
    anchors: Sequence[Sequence[float]], strides: Sequence[int], scales: Sequence[float] | None = None
) -> list[Level]:
    """Deals out anchors, sorted from small to large, evenly to levels, finest first; `scales` are their `scale_xy`.

    Raises:
        AttributeValueError: they do not divide evenly, or one is not a positive (width, height).
    """
    sizes = np.asarray(anchors, np.float32)
    if sizes.ndim != 2 or sizes.shape[1:] != (2,) or not (sizes > 0).all():
        raise AttributeValueError(f"anchors: {list(anchors)} are not pairs (width, height) of positive pixels")
    if len(sizes) % len(strides):
        raise AttributeValueError(
            f"anchors: {len(sizes)} anchors do not divide into {len(strides)} levels (strides {list(strides)})"
        )
    each = len(sizes) // len(strides)
    places = zip(strides, scales or [1.0] * len(strides), strict=True)
    return [Level(s, i * each, sizes[i * each : (i + 1) * each], xy) for i, (s, xy) in enumerate(places)]


@dataclass(frozen=True)
class Grid:
    """Where a level's predictions lie, as tensors, so that the grid may vary from batch to batch.

    Attributes:
        x, y: float32 [P], column and row of each prediction's cell.
        anchors: float32 [P, 2], anchor of each prediction, in pixels.
        columns, rows: int64 [], W and H.
        first: int64 [N, 1], number of each image's first prediction in [N * P].
    """

    x: Tensor
    y: Tensor
    anchors: Tensor
    columns: Tensor
    rows: Tensor
    first: Tensor


def make_grid(level: Level, raw: Tensor) -> Grid:
    """The grid of a level's output `raw`: [N, H, W, A * (5 + K)]."""
    with no_grad():
        count = len(level.anchors)
        rows, columns = ops.extent(raw, axis=1), ops.extent(raw, axis=2)
        cells = ops.positions(ops.flatten(raw, start=1, end=2), axis=1)  # [H * W]
        place = ops.flatten(ops.expand_dims(cells, axis=1) * count + tensor(np.arange(count)), start=0)  # [P]
        cell = place // count
        x, y = (ops.cast(each, dtype="float32") for each in (cell % columns, cell // columns))
        anchors = ops.gather(tensor(level.anchors), place % count)
        first = ops.expand_dims(ops.positions(raw, axis=0) * (rows * columns * count), axis=1)
    return Grid(x, y, anchors, columns, rows, first)


def decode_boxes(raw: Tensor, grid: Grid, level: Level) -> Tensor:
    """Boxes [N, P, 4] in pixels from raw (tx, ty, tw, th): [N, P, >= 4]; see `box_of`."""
    cell = ops.concat([ops.expand_dims(grid.x, axis=-1), ops.expand_dims(grid.y, axis=-1)], axis=-1)  # [P, 2]
    return box_of(_columns(raw, 0, 2), _columns(raw, 2, 4), cell, grid.anchors, level)


def box_of(xy: Tensor, wh: Tensor, cell: Tensor, anchor: Tensor, level: Level) -> Tensor:
    """Boxes [..., 4] in pixels from raw (tx, ty) and (tw, th), cells (column, row) and anchors (w, h): [..., 2] each.

    Centre = (place + cell) * stride, size = anchor * exp(t) (Redmon and Farhadi 2018, eq. in section 2.1).
    """
    centre = (place_in_cell(xy, level.scale_xy) + cell) * float(level.stride)
    # exp(8) times an anchor is far more than any image; the bound keeps an untrained network's boxes finite.
    half = ops.exp(ops.clip(wh, min=-8.0, max=8.0)) * (anchor * 0.5)
    return ops.concat([centre - half, centre + half], axis=-1)


def points_of(codes: Tensor, cell: Tensor, anchor: Tensor, level: Level) -> Tensor:
    """Points [..., L, 2] in pixels from codes of that shape; cells (column, row) and anchors (w, h): [..., 2] each.

    Point = the cell's middle + code * the anchor's sides.
    """
    middle = (ops.expand_dims(cell, axis=-2) + 0.5) * float(level.stride)
    return middle + codes * ops.expand_dims(anchor, axis=-2)


def place_in_cell(xy: Tensor, scale_xy: float = 1.0) -> Tensor:
    """s * sigmoid(t) - (s - 1) / 2: with s above 1 a centre on a cell's border is within reach (PP-YOLO, 2020)."""
    place = ops.sigmoid(xy)
    return place if scale_xy == 1.0 else place * scale_xy - (scale_xy - 1) / 2


def _columns(x: Tensor, start: int, end: int) -> Tensor:
    return x[..., start:end]
