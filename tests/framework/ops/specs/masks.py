"""framework/native/ops/masks.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _runs(mask):
    """COCO's uncompressed run lengths of a mask [H, W]."""
    flat = mask.T.reshape(-1)
    changes = np.flatnonzero(np.diff(flat)) + 1
    edges = [0, *changes, len(flat)] if not flat[0] else [0, 0, *changes, len(flat)]
    return np.diff(edges).astype(np.int32)


def _mask(runs, height, width):
    """The mask that runs stand for; what they do not reach is outside."""
    flat = np.zeros(height * width)
    at = 0
    for i, run in enumerate(np.maximum(runs, 0)):
        flat[at : at + run] = i % 2
        at += run
    return flat.reshape(width, height).T


def _covered(low, high, pixels):
    """How much of each pixel [low, high) covers."""
    starts = np.arange(pixels)
    return np.clip(np.minimum(high, starts + 1) - np.maximum(low, starts), 0, None)


def _crop_masks(runs, offsets, boxes, index, sizes, size):
    targets = np.zeros((*boxes.shape[:2], size, size))
    masks = (len(offsets) - 1) // max(1, len(boxes))
    for n, r in np.ndindex(*index.shape):
        x1, y1, x2, y2 = boxes[n, r]
        if not 0 <= index[n, r] < masks or x2 <= x1 or y2 <= y1:
            continue
        m = n * masks + index[n, r]
        mask = _mask(runs[offsets[m] : offsets[m + 1]], *sizes[n])
        height, width = (y2 - y1) / size, (x2 - x1) / size
        for p, q in np.ndindex(size, size):
            rows = _covered(y1 + p * height, y1 + (p + 1) * height, mask.shape[0])
            columns = _covered(x1 + q * width, x1 + (q + 1) * width, mask.shape[1])
            targets[n, r, p, q] = rows @ mask @ columns >= height * width / 2
    return targets


def _paste_masks(masks, boxes, height, width, threshold=0.5):
    bitmaps = np.zeros((len(masks), height, width))
    for d, (x1, y1, x2, y2) in enumerate(boxes):
        if x2 <= x1 or y2 <= y1:
            continue
        for i, j in np.ndindex(height, width):
            y = (i + 0.5 - y1) / (y2 - y1) * masks.shape[1] - 0.5
            x = (j + 0.5 - x1) / (x2 - x1) * masks.shape[2] - 0.5
            value = 0.0
            for row in (math.floor(y), math.floor(y) + 1):
                for column in (math.floor(x), math.floor(x) + 1):
                    if 0 <= row < masks.shape[1] and 0 <= column < masks.shape[2]:
                        value += (1 - abs(y - row)) * (1 - abs(x - column)) * masks[d, row, column]
            bitmaps[d, i, j] = value >= threshold
    return bitmaps


def _discs(images, masks, height, width, seed=0):
    """Run lengths of discs with holes, and where each starts."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    lists = []
    for _ in range(images * masks):
        at, radius = rng.uniform((0, 0), (height, width)), rng.uniform(3, height / 2)
        distance = np.hypot(y - at[0], x - at[1])
        lists.append(_runs((distance < radius) & (distance > radius / 4)))
    return [np.concatenate(lists), np.cumsum([0, *map(len, lists)])]


def _placed(*shape, seed=0, extent=24.0):
    rng = np.random.default_rng([seed, *shape])
    corner = rng.uniform(-4, extent, (*shape, 2))
    return np.concatenate([corner, corner + rng.uniform(2, 20, (*shape, 2))], -1)


def _choice(*shape, most=3):
    return np.random.default_rng(list(shape)).integers(-2, most + 1, shape)


SIZES = np.array([[20, 26], [20, 26]])
DISCS = _discs(2, 3, 20, 26)
BOXES = _placed(2, 6)
CUT = [*DISCS, BOXES, _choice(2, 6), SIZES]
DAMAGED = [np.array([5, -3, 9, 400, 7], np.int32), np.array([0, 3, 5], np.int32)]

spec(
    "crop_masks",
    reference=_crop_masks,
    exact=True,
    gradient=False,
    samples=[
        Sample(CUT, {"size": 7}),
        Sample([*DISCS, np.round(_placed(2, 6, seed=2)), np.zeros((2, 6), np.int64), SIZES], {"size": 4}),
        Sample([*_discs(1, 1, 30, 9), _placed(1, 40), np.zeros((1, 40), np.int64), np.array([[30, 9]])], {"size": 3}),
        Sample([*DAMAGED, _placed(2, 3), np.zeros((2, 3), np.int64), SIZES.astype(np.int32)], {"size": 2}),
        Sample([np.zeros(0, np.int32), np.zeros(1, np.int64), BOXES, _choice(2, 6), SIZES], {"size": 2}),
        Sample([*DISCS, np.zeros((2, 2, 4)), np.zeros((2, 2), np.int64), SIZES], {"size": 2}),
        Sample([np.zeros(0, np.int32), np.zeros(1, np.int64), BOXES[:0], _choice(0, 6), SIZES[:0]], {"size": 2}),
    ],
    errors=[
        Bad([DISCS[0].astype(np.int64), *CUT[1:]], DTypeError, "runs is int64", {"size": 7}),
        Bad([DISCS[0], DISCS[1][:-1], *CUT[2:]], ShapeError, "5 masks, which 2 images", {"size": 7}),
        Bad([DISCS[0], DISCS[1] + 1, *CUT[2:]], AttributeValueError, r"offsets\[0\] is 1", {"size": 7}),
        Bad([*DISCS, BOXES, _choice(2, 5), SIZES], ShapeError, "index has shape", {"size": 7}),
        Bad([*DISCS, BOXES, _choice(2, 6), SIZES[:1]], ShapeError, "sizes has shape", {"size": 7}),
        Bad(CUT, AttributeValueError, "size is 0", {"size": 0}),
    ],
)
MASKS = np.random.default_rng(3).uniform(0, 1, (5, 7, 6))
SPREAD = np.array([[2.3, 3.1, 17.2, 12.4], [-6, -3, 9.5, 50.2], [4, 4, 4.5, 5], [3, 3, 3, 9], [18.2, 2.1, 90.3, 30.7]])

spec(
    "paste_masks",
    reference=_paste_masks,
    exact=True,
    gradient=False,
    samples=[
        Sample([MASKS, SPREAD], {"height": 16, "width": 21}),
        Sample([MASKS * 2, SPREAD], {"height": 9, "width": 30, "threshold": 0.2}),
        Sample([np.ones((3, 1, 1)), SPREAD[:3]], {"height": 12, "width": 20, "threshold": 0.3}),
        Sample([MASKS[:0], SPREAD[:0]], {"height": 3, "width": 2}),
    ],
    errors=[
        Bad([MASKS, SPREAD[:3]], ShapeError, "boxes has shape", {"height": 3, "width": 2}),
        Bad([normal(2, 0, 3), SPREAD[:2]], ShapeError, "have no values", {"height": 3, "width": 2}),
        Bad([MASKS, SPREAD], AttributeValueError, "height is 0", {"height": 0, "width": 2}),
        Bad([MASKS, SPREAD], AttributeValueError, "threshold is 0", {"height": 3, "width": 2, "threshold": 0.0}),
    ],
)
