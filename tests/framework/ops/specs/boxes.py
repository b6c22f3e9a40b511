"""framework/native/ops/boxes.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec

MAX_LOG_SCALE = math.log(1000 / 16)
WEIGHTS = (10.0, 10.0, 5.0, 5.0)
EMPTY = np.array([[3.0, 3.0, 1.0, 9.0], [4.0, 4.0, 4.0, 4.0]])


def regions(*shape, seed=0):
    """Boxes with an area, none of whole numbers."""
    corner, size = normal(*shape, 2, seed=seed, scale=20.0), np.abs(normal(*shape, 2, seed=seed + 1)) * 15 + 2
    return np.concatenate([corner, corner + size], -1)


def _parts(b):
    """Centre and size, each [..., 2]."""
    return (b[..., :2] + b[..., 2:]) / 2, b[..., 2:] - b[..., :2]


def _box_encode(boxes, anchors, weights=(1.0, 1.0, 1.0, 1.0)):
    (at, size), (anchor_at, anchor_size) = _parts(boxes), _parts(anchors)
    with np.errstate(all="ignore"):
        deltas = np.concatenate([(at - anchor_at) / anchor_size, np.log(size / anchor_size)], -1) * weights
    valid = (size > 0).all(-1) & (anchor_size > 0).all(-1)
    return np.where(valid[..., None], deltas, 0.0)


def _box_decode(deltas, anchors, weights=(1.0, 1.0, 1.0, 1.0), max_log_scale=MAX_LOG_SCALE):
    at, size = _parts(anchors)
    shift, scale = deltas[..., :2] / weights[:2], deltas[..., 2:] / weights[2:]
    at, size = at + shift * size, size * np.exp(np.minimum(scale, max_log_scale))
    return np.concatenate([at - size / 2, at + size / 2], -1)


def _box_decode_grad(dy, deltas, anchors, weights=(1.0, 1.0, 1.0, 1.0), max_log_scale=MAX_LOG_SCALE):
    """By the chain rule from centre and size."""
    _, size = _parts(anchors)
    shift, scale = deltas[..., :2] / weights[:2], deltas[..., 2:] / weights[2:]
    stretch = np.exp(np.minimum(scale, max_log_scale))
    dat, dsize = dy[..., :2] + dy[..., 2:], (dy[..., 2:] - dy[..., :2]) / 2
    dshift = dat * size / weights[:2]
    dscale = np.where(scale > max_log_scale, 0.0, dsize * size * stretch / weights[2:])
    danchor = dat * shift + dsize * stretch
    shape = dy.shape
    return (
        np.broadcast_to(np.concatenate([dshift, dscale], -1), shape),
        np.broadcast_to(np.concatenate([dat / 2 - danchor, dat / 2 + danchor], -1), shape),
    )


def _clip_boxes(boxes, sizes):
    limits = np.stack([sizes[:, 1], sizes[:, 0]] * 2, -1)[:, None]
    return np.minimum(np.maximum(boxes, 0.0), limits)


def _clip_boxes_grad(dy, boxes, sizes):
    return np.where(_clip_boxes(boxes, sizes) == boxes, dy, 0.0)


def _anchor_grid(map, cells, stride, offset=0.0):
    steps = np.atleast_1d(stride)
    rows = (np.arange(map.shape[1]) + offset) * steps[0]
    columns = (np.arange(map.shape[2]) + offset) * steps[-1]
    y, x = np.meshgrid(rows, columns, indexing="ij")
    return (np.stack([x, y, x, y], -1)[:, :, None] + np.reshape(cells, (-1, 4))).reshape(-1, 4)


SIZES = np.array([[30, 20], [11, 40]])

spec(
    "box_encode",
    reference=_box_encode,
    gradient=False,
    samples=[
        Sample([regions(2, 7), regions(2, 7, seed=3)]),
        Sample([regions(2, 7), regions(7, seed=4)], {"weights": WEIGHTS}),
        Sample([regions(2, 3, 1), regions(5, seed=5)]),
        Sample([np.concatenate([EMPTY, regions(2)]), np.concatenate([regions(3, seed=2), EMPTY[:1]])]),
        Sample([regions(4)[0], regions(3, seed=2)]),
        Sample([normal(2, 0, 4), normal(0, 4)]),
    ],
    errors=[
        Bad([normal(2, 5), normal(2, 4)], ShapeError, r"boxes of shape \[2, 5\] must end in 4 coordinates"),
        Bad([normal(2, 4), normal(3, 4)], ShapeError, "do not broadcast"),
        Bad([normal(2, 4), integers(0, 3, 2, 4)], DTypeError, "anchors is int64 but boxes is float32"),
        Bad([normal(2, 4)] * 2, AttributeValueError, "weights has 3 numbers", {"weights": (1, 1, 1)}),
        Bad([normal(2, 4)] * 2, AttributeValueError, "weights holds 0", {"weights": (1, 0, 1, 1)}),
    ],
)
spec(
    "box_decode",
    reference=_box_decode,
    samples=[
        Sample([normal(2, 7, 4), regions(2, 7)]),
        Sample([normal(2, 7, 4, seed=3), regions(7)], {"weights": WEIGHTS}),
        Sample([normal(2, 3, 5, 4), regions(2, 3, 1)], {"max_log_scale": 0.3}),
        Sample([normal(4, 4, scale=9.0), regions(4)]),
        Sample([normal(3, 1, 4), regions(6)]),
        Sample([normal(2, 0, 4), normal(0, 4)]),
    ],
    errors=[
        Bad([normal(2, 4), normal(2, 3)], ShapeError, r"anchors of shape \[2, 3\] must end in 4 coordinates"),
        Bad([normal(2, 4), normal(3, 4)], ShapeError, "do not broadcast"),
        Bad([normal(2, 4)] * 2, AttributeValueError, "max_log_scale is not", {"max_log_scale": math.nan}),
    ],
)
spec(
    "box_decode_grad",
    reference=_box_decode_grad,
    gradient=False,
    samples=[
        Sample([normal(2, 7, 4, seed=1), normal(2, 7, 4), regions(2, 7)]),
        Sample([normal(2, 7, 4, seed=1), normal(2, 7, 4, seed=3), regions(7)], {"weights": WEIGHTS}),
        Sample([normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 4), regions(2, 3, 1)], {"max_log_scale": 0.3}),
        Sample([normal(3, 6, 4), normal(3, 1, 4), regions(6)]),
    ],
    errors=[
        Bad([normal(3, 4), normal(2, 4), normal(2, 4)], ShapeError, r"dy has shape \[3, 4\] but must have \[2, 4\]")
    ],
)
spec(
    "clip_boxes",
    reference=_clip_boxes,
    exact=True,
    samples=[
        Sample([regions(2, 9), SIZES]),
        Sample([regions(2, 5, seed=8), SIZES.astype(np.int32)]),
        Sample([regions(2, 300, seed=9), SIZES]),
        Sample([normal(2, 0, 4), SIZES]),
    ],
    errors=[
        Bad([normal(2, 4), SIZES], ShapeError, "boxes has 2 axes"),
        Bad([normal(3, 2, 4), SIZES], ShapeError, r"sizes has shape \[2, 2\] but must have \[3, 2\]"),
        Bad([normal(2, 2, 4), normal(2, 2)], DTypeError, "sizes"),
    ],
)
spec(
    "clip_boxes_grad",
    reference=_clip_boxes_grad,
    exact=True,
    samples=[
        Sample([normal(2, 9, 4), regions(2, 9), SIZES]),
        Sample([normal(2, 5, 4), regions(2, 5, seed=8), SIZES.astype(np.int32)]),
        Sample([normal(2, 0, 4), normal(2, 0, 4), SIZES]),
    ],
    errors=[Bad([normal(2, 3, 4), normal(2, 4, 4), SIZES], ShapeError, r"dy has shape \[2, 3, 4\]")],
)
spec(
    "anchor_grid",
    reference=_anchor_grid,
    gradient=False,
    samples=[
        Sample([normal(2, 3, 4, 5)], {"cells": (-8, -4, 8, 4, -2.5, -3, 2.5, 3), "stride": 16.0}),
        Sample([normal(1, 2, 5, 1)], {"cells": (-8, -4, 8, 4), "stride": (8.0, 12.5), "offset": 0.5}),
        Sample([normal(1, 0, 5, 1)], {"cells": (-8, -4, 8, 4), "stride": 8}),
        Sample([normal(0, 3, 5, 2)], {"cells": (-8, -4, 8, 4), "stride": 8}),
    ],
    errors=[
        Bad([normal(3, 4, 5)], ShapeError, "map has 3 axes", {"cells": (1, 2, 3, 4), "stride": 1.0}),
        Bad([normal(1, 3, 4, 5)], AttributeValueError, "cells has 3 numbers", {"cells": (1, 2, 3), "stride": 1.0}),
        Bad([normal(1, 3, 4, 5)], AttributeValueError, "stride has 3", {"cells": (1, 2, 3, 4), "stride": (1, 2, 3)}),
    ],
)
