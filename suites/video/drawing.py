"""Pictures of clips and videos: a strip of frames, labels over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from suites.vision.drawing import class_colour

_STRIP_HEIGHT = 160  # pixels of a drawn frame
_MOST_DRAWN = 8  # frames on a strip
_ROW, _NAMES, _WIDTH = 26, 160, 960  # pixels: height of a class's row, width of its name, width of the time
_MOST_ROWS = 10


def strip(frames: np.ndarray) -> np.ndarray:
    """Up to 8 frames of a clip uint8 [T, H, W, 3], evenly spread, side by side with a light gap between them."""
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, min(len(frames), _MOST_DRAWN)).round().astype(int))]
    width = round(frames.shape[2] * _STRIP_HEIGHT / frames.shape[1])
    scaled = [cv2.resize(frame, (width, _STRIP_HEIGHT), interpolation=cv2.INTER_AREA) for frame in chosen]
    gap = np.full((_STRIP_HEIGHT, 2, 3), 255, np.uint8)
    return np.concatenate([part for frame in scaled for part in (gap, frame)][1:], axis=1)


def labels_over_time(found: Sequence[Mapping[str, Any]], class_names: Sequence[str]) -> np.ndarray:
    """The labels of a video's windows as a picture uint8 [H, W, 3]: a row a class, time to the right.

    Rows are the 10 classes that are best most often; a window's part of a row is the darker the surer its class is.

    Args:
        found: start, end and `classes` of each window, in order.
        class_names: K names.
    """
    best = Counter(one["classes"][0]["class"] for one in found)
    rows = [name for name, _ in best.most_common(_MOST_ROWS)]
    end = found[-1]["end"]
    canvas = np.full((_ROW * (len(rows) + 1), _NAMES + _WIDTH, 3), 255, np.uint8)
    for row, name in enumerate(rows):
        colour = np.array(class_colour(class_names.index(name)), np.float64)
        for one in found:
            score = next((c["score"] for c in one["classes"] if c["class"] == name), 0.0)
            left, right = (_NAMES + round(_WIDTH * one[side] / end) for side in ("start", "end"))
            shade = colour * score + 255.0 * (1 - score)
            canvas[_ROW * row + 2 : _ROW * (row + 1) - 2, left : max(right, left + 1)] = shade.round()
        _write(canvas, name, (4, _ROW * (row + 1) - 8))
    for share in (0.0, 0.25, 0.5, 0.75):
        _write(canvas, _clock(share * end), (_NAMES + round(share * _WIDTH), len(canvas) - 8))
    return canvas


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _write(canvas: np.ndarray, text: str, corner: tuple[int, int]) -> None:
    cv2.putText(canvas, text, corner, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
