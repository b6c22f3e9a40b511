"""From a map of the probability of text to quadrilaterals, as DBNet's authors and PaddleOCR do it.

Liao et al. 2020, arXiv:1911.08947. Letters: H W size of a map, M quadrilaterals. A quadrilateral is float32 [4, 2],
(x, y) of its corners from the upper left on, clockwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.ocr.linking import linked

_LEAST = 3  # pixels of the shorter side of text in the map
_ARC = 0.25  # pixels that an arc of a widened polygon may be off


class Found(NamedTuple):
    """Quadrilaterals float32 [M, 4, 2] and the mean probability of text in each, float32 [M]."""

    quads: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class Finding:
    """How text is found in a map.

    Args:
        threshold: probability above which a pixel is text.
        box_threshold: mean probability below which text is left out.
        unclip: how far text is widened: the distance is unclip * area / circumference, as the network learnt it shrunk.
        dilate: widen the pixels of text by one to the right and down before they are joined.
        most: texts of a picture at most.
        link: of a map with links (`Craft`): value above which a pixel links characters. There `threshold` is the least
            value of a character's pixels, `box_threshold` the least largest value of a word, and `unclip` and `dilate`
            stay as they are.
    """

    threshold: float = 0.3
    box_threshold: float = 0.5
    unclip: float = 1.6
    dilate: bool = True
    most: int = 1000
    link: float = 0.4

    def __post_init__(self) -> None:
        for name in ("threshold", "box_threshold", "link"):
            if not 0 <= getattr(self, name) <= 1:
                raise AttributeValueError(f"finding: {name} is {getattr(self, name)}; it must lie between 0 and 1")
        if self.unclip <= 0 or self.most < 1:
            raise AttributeValueError(f"finding: unclip is {self.unclip} and most {self.most}; both must be above 0")

    def quads(self, probability: np.ndarray, size: tuple[int, int]) -> Found:
        """The text in a map [H, W], or in one of characters and links [H, W, 2], in pixels of a picture of `size`."""
        if probability.ndim == 3:
            found = list(itertools.islice(self._linked(probability), self.most))
        else:
            found = list(self._each(probability, self._contours(probability)))
        if not found:
            return Found(np.zeros((0, 4, 2), np.float32), np.zeros(0, np.float32))
        quads = np.stack([quad for quad, _ in found])
        height, width = probability.shape[:2]
        quads = np.round(quads / (width, height) * (size[1], size[0]))
        quads = np.stack([clockwise(quad) for quad in quads.clip(0, (size[1], size[0]))])
        quads = quads.clip(0, (size[1] - 1, size[0] - 1)).astype(np.float32)
        large = _whole(quads[:, 0] - quads[:, 1]) > _LEAST
        large &= _whole(quads[:, 0] - quads[:, 3]) > _LEAST
        return Found(quads[large], np.array([score for _, score in found], np.float32)[large])

    def _linked(self, maps: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
        """Quadrilaterals and scores in a map with links."""
        return linked(maps, self.threshold, self.box_threshold, self.link)

    def _contours(self, probability: np.ndarray) -> Sequence[np.ndarray]:
        """Outlines of the pixels of text."""
        mask: np.ndarray = (probability > self.threshold).astype(np.uint8)
        if self.dilate:
            mask = np.asarray(cv2.dilate(mask, np.ones((2, 2), np.uint8)))
        contours, _ = cv2.findContours(mask * 255, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        return contours[: self.most]

    def _each(self, probability: np.ndarray, contours: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, float]]:
        for contour in contours:
            quad, short = least_rectangle(contour)
            if short < _LEAST or (score := _mean_inside(probability, quad)) < self.box_threshold:
                continue
            wide, short = least_rectangle(widened(quad, self.unclip))
            if short >= _LEAST + 2:
                yield wide, score


def _whole(sides: np.ndarray) -> np.ndarray:
    """Whole pixels of sides [M, 2]."""
    return np.floor(np.hypot(sides[:, 0], sides[:, 1]))


def least_rectangle(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The rectangle of least area around points [P, 2] or [P, 1, 2], and its shorter side."""
    rectangle = cv2.minAreaRect(points)
    left, next_left, next_right, right = sorted(cv2.boxPoints(rectangle), key=lambda point: point[0])
    upper_left, lower_left = (left, next_left) if next_left[1] > left[1] else (next_left, left)
    upper_right, lower_right = (next_right, right) if right[1] > next_right[1] else (right, next_right)
    return np.array([upper_left, upper_right, lower_right, lower_left]), min(rectangle[1])


def clockwise(quad: np.ndarray) -> np.ndarray:
    """The corners [4, 2] from the upper left on: the two leftmost are the left side."""
    across = quad[np.argsort(quad[:, 0], kind="stable")]
    left, right = across[:2], across[2:]
    left, right = left[np.argsort(left[:, 1], kind="stable")], right[np.argsort(right[:, 1], kind="stable")]
    return np.array([left[0], right[0], right[1], left[1]])


def _mean_inside(probability: np.ndarray, quad: np.ndarray) -> float:
    """The mean of a map [H, W] inside of a quadrilateral."""
    height, width = probability.shape
    first = np.floor(quad.min(axis=0)).astype(int).clip(0, (width - 1, height - 1))
    last = np.ceil(quad.max(axis=0)).astype(int).clip(0, (width - 1, height - 1))
    part = probability[first[1] : last[1] + 1, first[0] : last[0] + 1]
    mask = np.zeros(part.shape, np.uint8)
    cv2.fillPoly(mask, [(quad - first).astype(np.int32)], 1)
    return float(cv2.mean(part, mask)[0])


def area_and_length(polygon: np.ndarray) -> tuple[float, float]:
    """Area and circumference of a polygon [P, 2]."""
    following = np.roll(polygon, -1, axis=0)
    cross = polygon[:, 0] * following[:, 1] - following[:, 0] * polygon[:, 1]
    return abs(float(cross.sum())) / 2, float(np.hypot(*(following - polygon).T).sum())


def widened(quad: np.ndarray, ratio: float) -> np.ndarray:
    """The outline int32 [P, 2] of a convex polygon [4, 2] widened by ratio * area / circumference, with round corners.

    Corners are cut to whole pixels first, as Clipper has them, whose arcs these are.
    """
    area, length = area_and_length(quad.astype(np.float64))
    distance = area * ratio / length if length else 0.0
    corners = np.trunc(quad).astype(np.float64)
    corners = corners[np.any(corners != np.roll(corners, 1, axis=0), axis=1)]
    if len(corners) < 2 or distance <= 0:
        return np.trunc(quad).astype(np.int32)
    steps = min(math.pi / math.acos(1 - min(_ARC / distance, 1.0)), distance * math.pi)
    sides = np.roll(corners, -1, axis=0) - corners
    normals = np.stack([sides[:, 1], -sides[:, 0]], axis=1) / np.hypot(*sides.T)[:, None]
    if _turns_left(corners):
        normals = -normals
    points: list[np.ndarray] = []
    for corner, before, after in zip(corners, np.roll(normals, 1, axis=0), normals, strict=True):
        turn = math.atan2(before[0] * after[1] - before[1] * after[0], float(before @ after))
        count = max(round(steps / (2 * math.pi) * abs(turn)), 1)
        angles = math.atan2(before[1], before[0]) + np.sign(turn) * np.arange(count) * 2 * math.pi / steps
        points += list(corner + distance * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        points.append(corner + distance * after)
    return np.floor(np.array(points) + 0.5).astype(np.int32)


def _turns_left(corners: np.ndarray) -> bool:
    following = np.roll(corners, -1, axis=0)
    return bool((corners[:, 0] * following[:, 1] - following[:, 0] * corners[:, 1]).sum() < 0)


def reading_order(quads: np.ndarray, near: float = 10.0) -> np.ndarray:
    """int64 [M]: quadrilaterals [M, 4, 2] from above, those within `near` pixels of height from the left."""
    order = sorted(range(len(quads)), key=lambda k: (quads[k, 0, 1], quads[k, 0, 0]))
    for start in range(1, len(order)):
        for at in range(start, 0, -1):
            one, two = quads[order[at - 1], 0], quads[order[at], 0]
            if abs(two[1] - one[1]) >= near or two[0] >= one[0]:
                break
            order[at - 1], order[at] = order[at], order[at - 1]
    return np.array(order, np.int64)


def cut(image: np.ndarray, quad: np.ndarray) -> np.ndarray:
    """What a quadrilateral shows of an image, upright as a rectangle; turned a quarter where it is tall."""
    width, height = _sides(quad)
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), corners)
    line = cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.ascontiguousarray(np.rot90(line)) if height >= _TALL * width else line


def as_written(quad: np.ndarray, turned: bool) -> np.ndarray:
    """The corners [4, 2] from the upper left on as the writing stands: it was `cut` out, then perhaps upside down."""
    width, height = _sides(quad)
    return np.roll(quad, -((height >= _TALL * width) + 2 * turned), axis=0)


_TALL = 1.5  # height over width of what is taken for writing from above to below


def _sides(quad: np.ndarray) -> tuple[int, int]:
    """Width and height in pixels, 1 at least."""
    upper_left, upper_right, lower_right, lower_left = quad
    width = max(_length(upper_left - upper_right), _length(lower_right - lower_left), 1)
    return width, max(_length(upper_left - lower_left), _length(upper_right - lower_right), 1)


def _length(side: np.ndarray) -> int:
    return int(np.hypot(side[0], side[1]))
