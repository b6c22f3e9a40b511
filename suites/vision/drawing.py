"""Words on pictures: readable at any size, one colour a class."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import cv2
import numpy as np

_LEAST_SIDE = 480  # pixels: smaller images are enlarged by a whole number before anything is drawn
_GOLDEN = 0.618033988749895
_FONT = cv2.FONT_HERSHEY_SIMPLEX


def class_colour(label: int) -> tuple[int, int, int]:
    """RGB of a class. Hues step by the golden ratio, so that neighbours differ however many classes there are."""
    red, green, blue = colorsys.hsv_to_rgb((label * _GOLDEN) % 1.0, 0.75, (1.0, 0.8)[label // 7 % 2])
    return round(red * 255), round(green * 255), round(blue * 255)


def enlarged(image: np.ndarray) -> tuple[np.ndarray, int]:
    """A copy of a uint8 image [H, W, 3], enlarged by a whole number s so that text stays legible, and s."""
    factor = max(1, -(-_LEAST_SIDE // max(image.shape[:2])))
    size = image.shape[1] * factor, image.shape[0] * factor
    return (cv2.resize(image, size, interpolation=cv2.INTER_CUBIC) if factor > 1 else image.copy()), factor


def stroke(canvas: np.ndarray) -> tuple[float, int]:
    """Scale of the text and thickness of the lines that suit a canvas [H, W, 3]."""
    scale = max(0.45, max(canvas.shape[:2]) / 1400)
    return scale, max(1, round(scale * 2))


def put_below(canvas: np.ndarray, lines: Sequence[tuple[str, tuple[int, int, int]]]) -> np.ndarray:
    """A picture uint8 [H, W, 3] with lines of text below it, each of an RGB colour; long ones are set smaller."""
    scale, thick = stroke(canvas)
    height = round(42 * scale)
    band = np.full((height * len(lines) + height // 3, canvas.shape[1], 3), 255, np.uint8)
    for place, (text, colour) in enumerate(lines):
        width = cv2.getTextSize(text, _FONT, scale, max(1, thick // 2))[0][0]
        own = scale * min(1.0, (canvas.shape[1] - 8) / max(width, 1))
        cv2.putText(
            band, text, (4, height * (place + 1) - height // 8), _FONT, own, colour, max(1, thick // 2), cv2.LINE_AA
        )
    return np.concatenate([canvas, band])


def put_plate(canvas: np.ndarray, text: str, corner: tuple[int, int], colour: tuple[int, int, int]) -> None:
    """Writes `text` on a plate of `colour`, in place, just above `corner` (x, y), or inside it at the top border."""
    height, width = canvas.shape[:2]
    scale, thick = stroke(canvas)
    x, y = corner
    (text_width, text_height), below = cv2.getTextSize(text, _FONT, scale, max(1, thick // 2))
    plate = text_height + below + 2
    left = max(0, min(x, width - text_width - 2))
    top = y - plate if y >= plate else min(y, height - plate)
    cv2.rectangle(canvas, (left, top), (left + text_width + 2, top + plate), colour, cv2.FILLED)
    luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    ink = (0, 0, 0) if luma > 128 else (255, 255, 255)
    origin = (left + 1, top + text_height + 1)
    cv2.putText(canvas, text, origin, _FONT, scale, ink, max(1, thick // 2), cv2.LINE_AA)
