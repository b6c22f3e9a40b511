"""Lines of YOLO's texts by what they hold: boxes, polygons, oriented boxes or keypoints, with or without a confidence.

A line alone does not tell: `c` and eight numbers are four corners, and `c` and 55 numbers are 17 keypoints or 27 points
with a confidence. So all lines of a set are looked at, and what `data.yaml` says of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.written import number_in

_SLACK = 1e-3  # how far beyond the border, in shares of the picture, rounding may put a number
_BOX = 4  # numbers x y w h
_SEEN = (0.0, 1.0, 2.0)  # what the third number of a keypoint may be


@dataclass(frozen=True)
class Line:
    """A line of a text.

    Attributes:
        label: number of the class.
        values: float64, what follows it.
        where: file and line, for messages.
    """

    label: int
    values: np.ndarray
    where: str


@dataclass(frozen=True)
class Keypoints:
    """How many keypoints follow each box, and how many numbers each has, 2 or 3."""

    count: int
    numbers: int

    @property
    def total(self) -> int:
        """Numbers behind the class."""
        return _BOX + self.count * self.numbers


def parsed(text: str, where: str) -> Line:
    """A line; DataError where it is not a whole number and other numbers."""
    words = text.split()
    try:
        label, values = number_in(words[0]), np.array([number_in(word) for word in words[1:]])
    except ValueError:
        raise DataError(f"{where}: '{text.strip()[:60]}' are not all numbers; a class comes first") from None
    if not label.is_integer():
        raise DataError(f"{where}: the class is {words[0]}; it must be a whole number, from 0")
    return Line(int(label), values, where)


def keypoints_in(lines: Sequence[Line], root: str) -> Keypoints | None:
    """The keypoints that the lines of a set hold though nothing says so; None where they hold none.

    Raises:
        DataError: they may be keypoints or polygons.
    """
    lengths = {len(line.values) for line in lines}
    if len(lengths) != 1 or (length := lengths.pop()) <= _BOX + 2:
        return None
    values = np.stack([line.values for line in lines])
    rest = values[:, _BOX:]
    if (length - _BOX) % 3 == 0 and np.isin(rest[:, 2::3], _SEEN).all():
        return Keypoints((length - _BOX) // 3, 3)
    if length % 2 or length == 2 * _BOX or len(lines) < 2:
        return None
    points = rest.reshape(len(values), -1, 2)
    low, high = values[:, None, :2] - values[:, None, 2:4] / 2, values[:, None, :2] + values[:, None, 2:4] / 2
    if ((points >= low - _SLACK) & (points <= high + _SLACK)).all():
        raise DataError(
            f"{root}: each line has {length} numbers behind the class: a box and {points.shape[1]} keypoints in it, or "
            f"a polygon of {length // 2} points. Say kpt_shape: [{points.shape[1]}, 2] in data.yaml, or give "
            'lines: "polygons" or "keypoints"'
        )
    return None


def outline(line: Line, keypoints: Keypoints | None) -> tuple[np.ndarray, bool, bool]:
    """(points, whether they are centre and size of a box, whether a confidence was left out) of a line.

    Returns:
        float64 [P, 2] in shares of the picture; of a box [[x, y], [w, h]].

    Raises:
        DataError: it has another number of numbers, or they are no shares of a picture.
    """
    values, sure = line.values, False
    if keypoints is not None:
        if len(values) not in (_BOX, keypoints.total, keypoints.total + 1):
            raise DataError(
                f"{line.where}: {len(values)} numbers behind the class; a box and {keypoints.count} keypoints of "
                f"{keypoints.numbers} numbers have {keypoints.total}"
            )
        sure, values = len(values) > keypoints.total, values[:_BOX]
    elif len(values) > _BOX and len(values) % 2:
        sure, values = True, values[:-1]
        if not 0 <= line.values[-1] <= 1:
            raise DataError(
                f"{line.where}: {len(line.values)} numbers behind the class, of which the last, {line.values[-1]:g}, "
                "is no confidence from 0 to 1; wanted is x y w h, or a polygon x1 y1 x2 y2 ..."
            )
    if len(values) < _BOX:
        raise DataError(f"{line.where}: {len(values)} numbers behind the class; wanted is x y w h, or a polygon")
    if not (np.isfinite(values).all() and values.min() >= -_SLACK and values.max() <= 1 + _SLACK):
        raise DataError(
            f"{line.where}: numbers from {values.min():g} to {values.max():g}; places are shares of the picture, 0 to 1"
        )
    return values.reshape(-1, 2), len(values) == _BOX, sure
