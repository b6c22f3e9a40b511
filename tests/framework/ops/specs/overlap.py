"""Test objects of framework/native/ops/overlap.cc."""

import numpy as np

from framework.errors import DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def boxes(n, m, seed=0):
    corner = normal(n, m, 2, seed=seed, scale=2.0)
    return np.concatenate([corner, corner + np.abs(normal(n, m, 2, seed=seed + 1, scale=3.0))], axis=2)


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def max_iou(boxes, others):
    return np.array([[max([iou(a, b) for b in o], default=0.0) for a in x] for x, o in zip(boxes, others, strict=True)])


padded = boxes(2, 5, seed=3)
padded[:, 3:] = 0

spec(
    "max_iou",
    reference=max_iou,
    samples=[
        Sample([boxes(2, 37), boxes(2, 5, seed=7)]),
        Sample([boxes(2, 16), padded]),
        Sample([boxes(1, 3), np.zeros((1, 0, 4))]),
        Sample([np.zeros((2, 0, 4)), boxes(2, 4)]),
    ],
    errors=[
        Bad([boxes(2, 3), boxes(1, 3)], ShapeError, r"must be \[N, P, 4\] and \[N, M, 4\] with the same N"),
        Bad([boxes(1, 3)[0], boxes(1, 3)], ShapeError, "max_iou: boxes"),
        Bad([np.zeros((1, 2, 4), np.int64), boxes(1, 3)], DTypeError, "max_iou: boxes"),
    ],
    gradient=False,
    roundings=16,
)
