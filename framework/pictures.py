"""Pictures by definitions of our own: the same bits on every machine, and in programs without Python (libpaddock).

OpenCV's cubic interpolation, its affine crops and its smoothing go through code that differs from processor to
processor.
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


def decode_heatmaps(heatmaps: np.ndarray, stride: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [N, L, 2], (x, y) in pixels of the inputs, and their scores [N, L], the heights of the maps.

    The largest cell of each map is refined by a step of Newton's method, at most one cell an axis, on the logarithm of
    the smoothed map (DARK, Zhang et al. 2020, arXiv:1910.06278). At the two cells of a border it stays as it is.

    Args:
        heatmaps: float32 [N, H, W, L].
        stride: pixels of a cell, at most 2^24.
        sigma: of the Gaussian that was learnt, in cells, at most 4096.

    AttributeValueError for a stride or sigma that is none, ShapeError for maps without a cell.
    """
    found: tuple[np.ndarray, np.ndarray] = _core.decode_heatmaps(np.ascontiguousarray(heatmaps), stride, sigma)
    return found
