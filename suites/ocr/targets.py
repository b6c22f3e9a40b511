"""What DBNet learns from outlines: text shrunk, and the nearness of its border.

Liao et al. 2020, arXiv:1911.08947. Distances come from distance transforms, which are exact offsets of any outline.
Letters: H W image size, P points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from suites.ocr.finding import area_and_length

_SHRINK = 0.4  # r: an outline is moved by area * (1 - r^2) / circumference
_LOW, _HIGH = 0.3, 0.7  # thresholds far from a border and at it
_LEAST = 3.0  # pixels of the shorter side below which a text is not learnt


class Targets(NamedTuple):
    """What the maps of one picture should be, float32 [H, W] each.

    Attributes:
        text: 1 in shrunk text.
        counted: 0 in texts that are not learnt.
        threshold: from 0.3 to 0.7 at a border.
        near: 1 where the threshold is learnt.
    """

    text: np.ndarray
    counted: np.ndarray
    threshold: np.ndarray
    near: np.ndarray


def targets(polygons: Sequence[np.ndarray], ignored: np.ndarray, size: tuple[int, int]) -> Targets:
    """The targets of a picture of `size` (H, W) with these outlines, float32 [P, 2]; those `ignored` do not count."""
    text, near, threshold = (np.zeros(size, np.float32) for _ in range(3))
    counted = np.ones(size, np.float32)
    for polygon, skip in zip(polygons, ignored, strict=True):
        area, length = area_and_length(polygon.astype(np.float64))
        distance = area * (1 - _SHRINK**2) / length if length else 0.0
        place = _place(polygon, math.ceil(distance) + 1, size)
        if place is None:
            continue
        rows, columns = place
        inside = np.zeros((rows.stop - rows.start, columns.stop - columns.start), np.uint8)
        corners = np.round(polygon - (columns.start, rows.start)).astype(np.int32)
        cv2.fillPoly(inside, [corners], 1)
        if skip or min(cv2.minAreaRect(polygon)[1]) < _LEAST:
            counted[rows, columns][inside > 0] = 0
            continue
        depth = cv2.distanceTransform(inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        away = cv2.distanceTransform(1 - inside, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) if (inside == 0).any() else 0
        text[rows, columns][depth > distance] = 1
        border = np.maximum(depth, away) - 0.5  # pixels from the border, which lies between two
        region = border <= distance
        near[rows, columns][region] = 1
        nearness = np.where(region, 1 - border / max(distance, 1e-6), 0)
        np.maximum(threshold[rows, columns], nearness, out=threshold[rows, columns])
    return Targets(text, counted, threshold * (_HIGH - _LOW) + _LOW, near * counted)


def _place(polygon: np.ndarray, margin: int, size: tuple[int, int]) -> tuple[slice, slice] | None:
    """Rows and columns of a picture around an outline; None where it lies outside."""
    left, top = np.floor(polygon.min(axis=0)).astype(int) - margin
    right, bottom = np.ceil(polygon.max(axis=0)).astype(int) + margin + 1
    top, bottom, left, right = max(top, 0), min(bottom, size[0]), max(left, 0), min(right, size[1])
    return (slice(top, bottom), slice(left, right)) if top < bottom and left < right else None
