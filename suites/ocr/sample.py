"""The nouns of the suite: a PageSample is a picture with the places of its texts, a LineSample a picture of one text.

Letters: H W image size, M texts, P points of a polygon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from framework.errors import DataError
from suites.vision.geometry import Move
from suites.vision.sample import ImageSample

ILLEGIBLE = "###"  # what ICDAR's files say of a text that nobody can read


class _Classless(ImageSample):
    """A picture in which nothing is of a class."""

    def reclassed(self, classes: Mapping[int, int]) -> Self:
        """The sample as it is."""
        return self


@dataclass(frozen=True, kw_only=True)
class PageSample(_Classless):
    """A picture with its texts.

    Attributes:
        image: RGB [H, W, 3] uint8.
        polygons: M outlines, float32 [P, 2] of (x, y) each.
        texts: what they say.
        ignored: bool [M], those that are neither learnt nor counted, such as illegible ones.
        number: of the picture in its set.
    """

    polygons: tuple[np.ndarray, ...]
    texts: tuple[str, ...]
    ignored: np.ndarray
    number: int = 0

    def belongings(self, by: Move) -> dict[str, Any]:
        """The outlines, moved."""
        return {"polygons": tuple(by.step.points(polygon).astype(np.float32) for polygon in self.polygons)}


@dataclass(frozen=True, kw_only=True)
class LineSample(_Classless):
    """A picture of one line of text.

    Attributes:
        image: RGB [H, W, 3] uint8.
        text: what it says.
        number: of the line in its set.
    """

    text: str
    number: int = 0


def checked_polygon(points: np.ndarray) -> np.ndarray:
    """Points [P, 2] as a polygon, float32; DataError where there are fewer than 4, or its sides cross."""
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 4:
        raise DataError(f"has {len(points)} points; the outline of a text has 4 or more")
    if not np.isfinite(points).all():
        raise DataError("has a point that is no number")
    if _crosses(points.astype(np.float64)):
        raise DataError(f"its sides cross: {np.round(points).astype(int).tolist()}; give the corners in turn")
    return points.astype(np.float32)


def _crosses(points: np.ndarray) -> bool:
    """Whether two sides that are no neighbours have a point in common."""
    count, ends = len(points), np.roll(points, -1, axis=0)
    for i in range(count):
        for j in range(i + 2, count - (i == 0)):
            a, b, c, d = points[i], ends[i], points[j], ends[j]
            if _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0:
                return True
    return False


def _side(a: np.ndarray, b: np.ndarray, point: np.ndarray) -> float:
    return float((b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0]))
