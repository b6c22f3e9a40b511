"""Pictures of boxes: class names and scores on an image, large enough to read, one colour a class."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence

import cv2
import numpy as np

from suites.detection.sample import Sample
from suites.vision.images import write_image

_LEAST_SIDE = 480  # pixels: smaller images are enlarged by a whole number before anything is drawn
_GOLDEN = 0.618033988749895
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def class_colour(label: int) -> tuple[int, int, int]:
    """RGB of a class. Hues step by the golden ratio, so that neighbours differ however many classes there are."""
    red, green, blue = colorsys.hsv_to_rgb((label * _GOLDEN) % 1.0, 0.75, (1.0, 0.8)[label // 7 % 2])
    return round(red * 255), round(green * 255), round(blue * 255)


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
    factor = max(1, -(-_LEAST_SIDE // max(image.shape[:2])))
    size = image.shape[1] * factor, image.shape[0] * factor
    canvas = cv2.resize(image, size, interpolation=cv2.INTER_CUBIC) if factor > 1 else image.copy()
    order = range(len(boxes)) if scores is None else np.argsort(scores, kind="stable")
    for at in order:
        score = None if scores is None else float(scores[at])
        if score is None or score >= min_score:
            text = class_names[int(labels[at])] + ("" if score is None else f" {score:.2f}")
            _draw_one(canvas, np.rint(np.asarray(boxes[at]) * factor), text, class_colour(int(labels[at])))
    return canvas


def draw_sample(sample: Sample, class_names: Sequence[str]) -> np.ndarray:
    """Draws a dataset's or a transform's uint8 sample with its boxes: what training sees."""
    return draw_boxes(sample.image, sample.boxes, sample.labels, class_names)


def save_boxes(
    path: str | os.PathLike[str],
    image: np.ndarray,
    boxes: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    scores: np.ndarray | None = None,
    min_score: float = 0.0,
) -> None:
    """Writes the picture of `draw_boxes` to a file, whole or not at all."""
    write_image(path, draw_boxes(image, boxes, labels, class_names, scores, min_score))


def _draw_one(canvas: np.ndarray, box: np.ndarray, text: str, colour: tuple[int, int, int]) -> None:
    height, width = canvas.shape[:2]
    scale = max(0.45, max(height, width) / 1400)
    thick = max(1, round(scale * 2))
    x1, y1, x2, y2 = (int(v) for v in np.clip(box, 0, [width - 1, height - 1] * 2))
    cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, thick)
    (text_width, text_height), below = cv2.getTextSize(text, _FONT, scale, max(1, thick // 2))
    plate = text_height + below + 2
    left = max(0, min(x1, width - text_width - 2))
    top = y1 - plate if y1 >= plate else min(y1, height - plate)  # above the box, or inside at the border
    cv2.rectangle(canvas, (left, top), (left + text_width + 2, top + plate), colour, cv2.FILLED)
    luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    ink = (0, 0, 0) if luma > 128 else (255, 255, 255)
    origin = (left + 1, top + text_height + 1)
    cv2.putText(canvas, text, origin, _FONT, scale, ink, max(1, thick // 2), cv2.LINE_AA)
