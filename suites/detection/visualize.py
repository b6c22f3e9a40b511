"""Pictures of boxes: class names and scores on an image, large enough to read, one colour a class."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from suites.vision.drawing import class_colour, enlarged, put_plate, stroke


def draw_boxes(
    image: np.ndarray,
    boxes: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    scores: np.ndarray | None = None,
    min_score: float = 0.0,
) -> np.ndarray:
    """Draws boxes on a copy of an image, the best score last so that it lies on top.

    Args:
        image: uint8 RGB [H, W, 3]. A small one is enlarged by a whole number, so that text stays legible.
        boxes: [M, 4], in pixels of `image`.
        labels: int [M], indices into `class_names`.
        class_names: K names.
        scores: [M], written behind the name; None for ground truth.
        min_score: Boxes below it are left out.

    Returns:
        uint8 RGB [H * s, W * s, 3], s the whole number.
    """
    canvas, factor = enlarged(image)
    order = range(len(boxes)) if scores is None else np.argsort(scores, kind="stable")
    for at in order:
        score = None if scores is None else float(scores[at])
        if score is None or score >= min_score:
            text = class_names[int(labels[at])] + ("" if score is None else f" {score:.2f}")
            _draw_one(canvas, np.rint(np.asarray(boxes[at]) * factor), text, class_colour(int(labels[at])))
    return canvas


def _draw_one(canvas: np.ndarray, box: np.ndarray, text: str, colour: tuple[int, int, int]) -> None:
    height, width = canvas.shape[:2]
    x1, y1, x2, y2 = (int(v) for v in np.clip(box, 0, [width - 1, height - 1] * 2))
    cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, stroke(canvas)[1])
    put_plate(canvas, text, (x1, y1), colour)
