"""framework/native/ops/regions.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _taps(start, extent, size, sampling, pixels):
    """[size, pixels]: what each bin reads along one axis, straight from the definition."""
    bin_extent = extent / size
    points = sampling or min(max(1, math.ceil(bin_extent)), 1024)
    matrix = np.zeros((size, pixels))
    for b in range(size):
        for i in range(points):
            at = start + b * bin_extent + (i + 0.5) * bin_extent / points
            if at < -1 or at > pixels:
                continue
            at = min(max(at, 0.0), pixels - 1.0)
            low = int(at)
            matrix[b, low] += (1 - (at - low)) / points
            if low + 1 < pixels:
                matrix[b, low + 1] += (at - low) / points
    return matrix


def _levels(boxes, count, maps, size, strides, sampling, aligned, canonical_size, canonical_level):
    """For every region that counts: its row of y, image, map, and its two matrices."""
    strides = np.atleast_1d(strides)
    for n in range(len(boxes)):
        for r, (x1, y1, x2, y2) in enumerate(boxes[n]):
            if (count is not None and r >= count[n]) or x2 <= x1 or y2 <= y1:
                continue
            side = math.sqrt((x2 - x1) * (y2 - y1))
            level = math.floor(canonical_level + math.log2(side / canonical_size) + 1e-6)
            level = min(max(level, 0), len(maps) - 1)
            scale, shift, least = 1 / strides[level], 0.5 * aligned, 0.0 if aligned else 1.0
            _, height, width, _ = maps[level].shape
            rows = _taps(y1 * scale - shift, max((y2 - y1) * scale, least), size, sampling, height)
            columns = _taps(x1 * scale - shift, max((x2 - x1) * scale, least), size, sampling, width)
            yield n * boxes.shape[1] + r, n, level, rows, columns


def _roi_align(boxes, count, *maps, size, strides, sampling=0, aligned=True, canonical_size=224.0, canonical_level=2):
    y = np.zeros((boxes.shape[0] * boxes.shape[1], size, size, maps[0].shape[3]))
    placed = _levels(boxes, count, maps, size, strides, sampling, aligned, canonical_size, canonical_level)
    for row, n, level, rows, columns in placed:
        y[row] = np.einsum("ph,qw,hwc->pqc", rows, columns, maps[level][n])
    return y


def _roi_align_grad(
    dy, boxes, count, *maps, size, strides, sampling=0, aligned=True, canonical_size=224.0, canonical_level=2
):
    dmaps = [np.zeros(m.shape) for m in maps]
    placed = _levels(boxes, count, maps, size, strides, sampling, aligned, canonical_size, canonical_level)
    for row, n, level, rows, columns in placed:
        dmaps[level][n] += np.einsum("ph,qw,pqc->hwc", rows, columns, dy[row])
    return tuple(dmaps)


def regions(*shape, seed=0, extent=60.0, sides=(3.0, 50.0)):
    """Boxes of broken numbers, some of which leave an image of that extent."""
    rng = np.random.default_rng([seed, *shape])
    corner = rng.uniform(-0.2 * extent, extent, (*shape, 2))
    return np.concatenate([corner, corner + rng.uniform(*sides, (*shape, 2))], -1)


def _with_empty(boxes):
    boxes = boxes.copy()
    boxes[:, 0] = (5, 5, 5, 9)
    boxes[:, -1] = 0
    return boxes


MAPS = [normal(2, 16, 20, 5, seed=1), normal(2, 8, 10, 5, seed=2), normal(2, 4, 5, 5, seed=3)]
PYRAMID = {"size": 3, "strides": (4.0, 8.0, 16.0), "canonical_size": 30.0, "canonical_level": 1}
COUNT = np.array([5, 2])
FAR = np.array([[[-90.0, -90, -70, -70], [-6, -7, 100, 90], [60, 50, 90, 79], [3, 3, 3.01, 3.01], [20, 2, 21, 80]]])
CASES = [
    ([regions(2, 5), None, MAPS[0]], {"size": 2, "strides": 4.0}),
    ([_with_empty(regions(2, 6)), COUNT, *MAPS], {**PYRAMID, "sampling": 2}),
    ([regions(2, 6, seed=5), COUNT.astype(np.int32), *MAPS], {**PYRAMID, "aligned": False}),
    ([FAR, None, normal(1, 20, 21, 70)], {"size": 4, "strides": 4.0, "sampling": 2, "aligned": False}),
    ([FAR, None, normal(1, 20, 21, 70)], {"size": 2, "strides": 4.0, "aligned": True}),
    ([regions(1, 9), None, normal(1, 40, 300, 32)], {"size": 7, "strides": (2.0,), "sampling": 1}),
    ([normal(2, 0, 4), None, MAPS[0]], {"size": 2, "strides": 4.0}),
]
BOXES = regions(2, 3)
ERRORS = [
    ([regions(3), None, MAPS[0]], ShapeError, "boxes has 2 axes", {"size": 2, "strides": 4.0}),
    ([BOXES, None], ShapeError, "there are no maps", {"size": 2, "strides": 4.0}),
    ([BOXES, None, normal(3, 4, 4, 5)], ShapeError, r"maps\[0\] .* must have 2 images", {"size": 2, "strides": 4.0}),
    ([BOXES, None, MAPS[0], normal(2, 4, 4, 6)], ShapeError, "5 channels, as maps", {"size": 2, "strides": (4.0, 8)}),
    ([BOXES, None, integers(0, 9, 2, 4, 4, 5)], DTypeError, r"maps\[0\] is int64", {"size": 2, "strides": 4.0}),
    ([BOXES, np.array([1, 2, 3]), MAPS[0]], ShapeError, "count has shape", {"size": 2, "strides": 4.0}),
    ([BOXES, None, *MAPS], AttributeValueError, "strides has 1 numbers but there are 3", {"size": 2, "strides": 4.0}),
    ([BOXES, None, MAPS[0]], AttributeValueError, "strides holds 0", {"size": 2, "strides": 0.0}),
    ([BOXES, None, MAPS[0]], AttributeValueError, "size is 0", {"size": 0, "strides": 4.0}),
    ([BOXES, None, MAPS[0]], AttributeValueError, "sampling is -1", {"size": 2, "strides": 4.0, "sampling": -1}),
]


def _dy(inputs, attrs):
    boxes, _, *maps = inputs
    return normal(boxes.shape[0] * boxes.shape[1], attrs["size"], attrs["size"], maps[0].shape[3], seed=9)


spec(
    "roi_align",
    reference=_roi_align,
    roundings=16,
    samples=[Sample(inputs, attrs, differentiable=tuple(range(2, len(inputs)))) for inputs, attrs in CASES],
    errors=[Bad(*bad) for bad in ERRORS],
)
spec(
    "roi_align_grad",
    reference=_roi_align_grad,
    roundings=16,
    samples=[Sample([_dy(inputs, attrs), *inputs], attrs, differentiable=(0,)) for inputs, attrs in CASES],
    errors=[
        Bad([normal(5, 2, 2, 5), BOXES, None, MAPS[0]], ShapeError, "dy has shape", {"size": 2, "strides": 4.0}),
    ],
)
