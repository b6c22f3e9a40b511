"""Points and skeletons on pictures. Letters: H W image size, L points."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from suites.vision.drawing import class_colour, stroke


def draw_points(
    canvas: np.ndarray, factor: int, rows: np.ndarray, skeleton: Sequence[tuple[int, int]], least: float = 1e-9
) -> None:
    """Draw an object's points on a picture that was enlarged, and the lines between them.

    Args:
        canvas: uint8 RGB [H, W, 3], which is changed.
        factor: by which it was enlarged.
        rows: [L, 3], (x, y, visibility or score) in pixels of the picture as it was.
        skeleton: pairs of points that a line joins.
        least: visibility or score from which on a point is drawn.
    """
    places = [(round(x * factor), round(y * factor)) for x, y, _ in np.asarray(rows, np.float64).tolist()]
    sure = [score >= least for *_, score in rows]
    for a, b in skeleton:
        if sure[a] and sure[b]:
            cv2.line(canvas, places[a], places[b], class_colour(0), stroke(canvas)[1])
    for at, place in enumerate(places):
        if sure[at]:
            cv2.circle(canvas, place, stroke(canvas)[1] + 1, class_colour(1), cv2.FILLED)
