"""Pictures by definitions of our own: the same bits on every machine, and in programs without Python (libpaddock).

OpenCV's cubic interpolation and its affine crops go through code that differs from processor to processor.
"""

from __future__ import annotations

import numpy as np

from framework import _core


def resize_cubic(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A picture uint8 [H, W, 3] stretched to `size` (height, width) by cubic interpolation (Keys 1981, a = -0.75).

    Pixels' centres are at halves. Each result is of 16 pixels, also where the picture shrinks, as in OpenCV. Within 1
    of exact arithmetic. ShapeError for sides of 0 or above 2^24.
    """
    return _core.resize_cubic(np.ascontiguousarray(image), *size)


def warp_affine(image: np.ndarray, step: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """What a picture uint8 [H, W, 3] shows in one of `size` (height, width) whose points are those of `step`.

    Args:
        image: the picture.
        step: float64 [2, 3], from points (x, y) of the picture to points of the result; a pixel is a square, so the
            centre of column i is at i + 1/2.
        size: of the result, which is bilinear between pixels and black outside.

    AttributeValueError where no map leads back. Within 1 of exact arithmetic.
    """
    return _core.warp_affine(np.ascontiguousarray(image), np.ascontiguousarray(step, np.float64), *size)
