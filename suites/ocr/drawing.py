"""Pictures of what was read: outlines on the image, and their texts beside it."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from suites.vision.drawing import class_colour, enlarged, put_plate

_MOST = 4096  # pixels of a picture's side


def draw_texts(image: np.ndarray, texts: Sequence[tuple[np.ndarray, str]]) -> np.ndarray:
    """An image with outlines, each with its number and its text.

    Of a text that has other characters than ASCII's, which the font lacks, only the number is drawn.

    Args:
        image: uint8 RGB [H, W, 3]. A small one is enlarged by a whole number, a large one made smaller.
        texts: corners [4, 2] in the image, and what they say.
    """
    factor = min(1.0, _MOST / max(image.shape[:2]))
    if factor < 1:
        size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    canvas, larger = enlarged(image)
    for number, (quad, text) in enumerate(texts, start=1):
        corners = np.round(quad * factor * larger).astype(np.int32)
        colour = class_colour(number)
        cv2.polylines(canvas, [corners], True, colour, max(1, max(canvas.shape[:2]) // 700), cv2.LINE_AA)
        said = f"{number} {text}" if text.isascii() and text.isprintable() else str(number)
        put_plate(canvas, said, (int(corners[:, 0].min()), int(corners[:, 1].min())), colour)
    return canvas
