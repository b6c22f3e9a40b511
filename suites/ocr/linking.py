"""From CRAFT's maps of characters and links to quadrilaterals, as its authors do it (getDetBoxes_core).

Baek et al. 2019, arXiv:1904.01941. Letters: H W size of a map. A quadrilateral is float32 [4, 2], (x, y) of its corners
from the upper left on, clockwise.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

_LEAST = 10  # pixels of a word in the map
_SQUARE = 0.1  # sides that differ by less are a square, which is taken upright


def linked(maps: np.ndarray, low: float, high: float, link: float) -> Iterator[tuple[np.ndarray, float]]:
    """Quadrilaterals in the maps [H, W, 2], and the largest value of characters in each.

    Args:
        maps: characters and links.
        low: value above which a pixel belongs to a character.
        high: the largest value of a word is this at least.
        link: value above which a pixel links characters.
    """
    characters, links = np.ascontiguousarray(maps[..., 0]), maps[..., 1]
    inside, between = characters > low, links > link
    count, labels, stats, _ = cv2.connectedComponentsWithStats((inside | between).astype(np.uint8), connectivity=4)
    for k in range(1, count):
        left, top, width, height, size = (int(number) for number in stats[k])
        place = np.s_[top : top + height, left : left + width]
        own = labels[place] == k
        best = float(characters[place][own].max())
        if size < _LEAST or best < high:
            continue
        grown = int(np.sqrt(size * min(width, height) / (width * height)) * 2)
        part = (own & ~(between[place] & ~inside[place])).astype(np.uint8)
        yield _quad(_widened(part, left, top, grown, maps.shape[:2])), best


def _widened(part: np.ndarray, left: int, top: int, grown: int, size: tuple[int, ...]) -> np.ndarray:
    """Points (x, y) of a word's pixels, grown by so many pixels in all directions together, within the map."""
    above, before = min(grown, top), min(grown, left)
    below = min(grown + 1, size[0] - top - part.shape[0])
    behind = min(grown + 1, size[1] - left - part.shape[1])
    mask = np.pad(part, ((above, below), (before, behind)))
    mask = np.asarray(cv2.dilate(mask, np.ones((1 + grown, 1 + grown), np.uint8)))
    rows, columns = np.nonzero(mask)
    return np.stack([columns + left - before, rows + top - above], axis=1)


def _quad(points: np.ndarray) -> np.ndarray:
    """The rectangle of least area around points [P, 2]; upright where that is about a square."""
    corners = cv2.boxPoints(cv2.minAreaRect(points.astype(np.int32)))
    width, height = np.hypot(*(corners[0] - corners[1])), np.hypot(*(corners[1] - corners[2]))
    if abs(1 - max(width, height) / (min(width, height) + 1e-5)) <= _SQUARE:
        (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
        corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0).astype(np.float32)
