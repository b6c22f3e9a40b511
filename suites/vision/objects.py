"""Objects that a detector found in a picture, for models that look at each: cut out, and drawn with their boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from suites.vision.drawing import class_colour, enlarged, put_plate, stroke

Row = Mapping[str, Any]  # what a detector says of an object: `box` [x1, y1, x2, y2] in pixels, and more


def cut_out(image: np.ndarray, box: Sequence[float]) -> np.ndarray:
    """The pixels of an image uint8 [H, W, 3] that a box touches, at least one."""
    height, width = image.shape[:2]
    x1, y1, x2, y2 = box
    left, top = int(np.clip(x1, 0, width - 1)), int(np.clip(y1, 0, height - 1))
    right, bottom = int(np.clip(np.ceil(x2), left + 1, width)), int(np.clip(np.ceil(y2), top + 1, height))
    return np.ascontiguousarray(image[top:bottom, left:right])


class CutObjects:
    """What processors of pictures offer as `TakesObjects`: each object as a picture of its own."""

    def objects_in(self, item: np.ndarray, rows: Sequence[Row]) -> list[Any]:
        """The objects, cut out of a picture uint8 RGB [H, W, 3]."""
        return [cut_out(item, row["box"]) for row in rows]

    def draw_objects(self, item: np.ndarray, rows: Sequence[Row], results: Sequence[Any]) -> np.ndarray:
        """The picture with the boxes and their numbers, as `predictions.json` has them in order."""
        canvas, factor = enlarged(item)
        for number, row in enumerate(rows):
            draw_box(canvas, row["box"], factor, f"{number}: {self.said(row, results[number])}")
        return canvas

    def said(self, row: Row, result: Any) -> str:
        """What stands at a box: by default the detector's class."""
        return str(row.get("class", ""))


def draw_box(canvas: np.ndarray, box: Sequence[float], factor: int, text: str) -> None:
    """Draw a box of the picture's pixels on a canvas that is `factor` times as large, in place."""
    x1, y1, x2, y2 = (round(float(value) * factor) for value in box)
    cv2.rectangle(canvas, (x1, y1), (x2, y2), class_colour(0), stroke(canvas)[1])
    put_plate(canvas, text, (x1, y1), class_colour(0))
