"""From what a mask head gives, a small grid over each box, to shapes in the pixels of the picture."""

from __future__ import annotations

import numpy as np

from framework import from_numpy, no_grad, ops
from suites.vision.structures import Boxes, Masks, encode

_PIXELS = 1 << 26  # of all bitmaps that are in memory at one time, unless one alone has more


def pasted(grids: np.ndarray, boxes: Boxes, size: tuple[int, int], threshold: float = 0.5) -> Masks:
    """Shapes of M objects of a picture: where the grid over the box, interpolated, is at least `threshold`.

    Args:
        grids: float32 [M, S, S], how likely each cell belongs to the object.
        boxes: of the objects, in pixels of the picture.
        size: (H, W) of the picture.
        threshold: from what on a pixel belongs.
    """
    height, width = size
    step = max(1, _PIXELS // (height * width))
    codes = []
    for first in range(0, len(boxes), step):
        part = slice(first, first + step)
        with no_grad():
            bitmaps = ops.paste_masks(
                from_numpy(np.ascontiguousarray(grids[part])),
                from_numpy(np.ascontiguousarray(boxes.array[part], np.float32)),
                height=height,
                width=width,
                threshold=threshold,
            )
        codes += [encode(bitmap) for bitmap in bitmaps.numpy()]
    return Masks(tuple(codes), size)
