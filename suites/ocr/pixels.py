"""What the suite's networks are shown: blue, green, red from -1 to 1, as PaddleOCR's are.

Letters: N pictures, H W size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from framework.errors import DataError

_STEP = 8  # pixels: widths of batches are multiples
_OWN_STEP = 32  # pixels: the width that a line is read with is a multiple
MOST_COLUMNS = 1 << 16  # pixels of a line
DIRECTION_SIZE = (48, 192)  # of lines that a direction classifier is shown


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


@dataclass(frozen=True)
class LineFrame:
    """How lines [h, w, 3] are shown to a recogniser: brought to a height, with nothing behind their end.

    Args:
        height: of the network's lines.
        least: columns of pixels that a line is shown with at least.
        most: columns at most; a line that is wider is squeezed.
        margin: columns of nothing behind each line at least, as far as `most` lets it. What a network says of a line's
            end depends on how much of nothing stands behind it; in training most lines have some.
    """

    height: int
    least: int
    most: int = MOST_COLUMNS
    margin: int = 0

    def own_width(self, line: np.ndarray) -> int:
        """Columns that a line is read with, whichever lines are read with it."""
        return min(-(-self._width(line) // _OWN_STEP) * _OWN_STEP, self.most)

    def batch(self, lines: Sequence[np.ndarray], width: int = 0) -> np.ndarray:
        """Lines as float32 [N, height, W, 3], as wide as the widest and at least `width`; see `lines_shown`.

        Raises:
            DataError: a line is too long to be read.
        """
        widest = max(lines, key=lambda line: line.shape[1] / line.shape[0])
        if line_width(widest, self.height) > MOST_COLUMNS:
            times = widest.shape[1] / widest.shape[0]
            raise DataError(f"line: is {times:.0f} times as wide as high; up to {MOST_COLUMNS // self.height} are read")
        width = max(self._width(widest), min(width, self.most))
        return lines_shown(lines, self.height, min(-(-width // _STEP) * _STEP, self.most))

    def _width(self, line: np.ndarray) -> int:
        return max(self.least, line_width(line, self.height) + self.margin)
