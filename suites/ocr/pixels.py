"""What the suite's networks are shown: blue, green, red from -1 to 1, as PaddleOCR's are.

Letters: N pictures, H W size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from framework.errors import DataError

_STEP = 8  # pixels: widths of batches are multiples
_OWN_STEP = 32  # pixels: the width that a line is read with is a multiple
MOST_COLUMNS = 1 << 16  # pixels of a line


def shown(image: np.ndarray) -> np.ndarray:
    """float32 BGR [H, W, 3] from -1 to 1 of uint8 RGB [H, W, 3]."""
    return image[..., ::-1].astype(np.float32) / 127.5 - 1


def line_width(line: np.ndarray, height: int) -> int:
    """Columns of a line [h, w, 3] that is brought to a height."""
    return max(1, math.ceil(height * line.shape[1] / line.shape[0]))


def lines_shown(lines: Sequence[np.ndarray], height: int, width: int) -> np.ndarray:
    """Lines uint8 RGB [h, w, 3] as a batch float32 [N, height, width, 3]: scaled to the height, 0 behind their end.

    A line that is wider then is squeezed to the width.
    """
    batch = np.zeros((len(lines), height, width, 3), np.float32)
    for place, line in zip(batch, lines, strict=True):
        own = min(width, line_width(line, height))
        place[:, :own] = shown(cv2.resize(line, (own, height)))
    return batch


def own_width(line: np.ndarray, height: int, least: int, most: int = MOST_COLUMNS) -> int:
    """Columns that a line is read with, whichever lines are read with it; see `lines_batch`.

    What a network says of a line depends a little on how much of nothing stands behind it.
    """
    width = max(least, line_width(line, height))
    return min(-(-width // _OWN_STEP) * _OWN_STEP, most)


def lines_batch(lines: Sequence[np.ndarray], height: int, least: int, most: int = MOST_COLUMNS) -> np.ndarray:
    """Lines as a batch as wide as the widest, from `least` to `most` pixels; DataError for one too long to be read."""
    widest = max(lines, key=lambda line: line.shape[1] / line.shape[0])
    width = max(least, line_width(widest, height))
    if width > MOST_COLUMNS:
        times = widest.shape[1] / widest.shape[0]
        raise DataError(f"line: is {times:.0f} times as wide as high; up to {MOST_COLUMNS // height} are read")
    return lines_shown(lines, height, min(-(-width // _STEP) * _STEP, most))
