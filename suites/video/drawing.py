"""Pictures of clips: a strip of their frames."""

from __future__ import annotations

import cv2
import numpy as np

_STRIP_HEIGHT = 160  # pixels of a drawn frame
_MOST_DRAWN = 8  # frames on a strip


def strip(frames: np.ndarray) -> np.ndarray:
    """Up to 8 frames of a clip uint8 [T, H, W, 3], evenly spread, side by side with a light gap between them."""
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, min(len(frames), _MOST_DRAWN)).round().astype(int))]
    width = round(frames.shape[2] * _STRIP_HEIGHT / frames.shape[1])
    scaled = [cv2.resize(frame, (width, _STRIP_HEIGHT), interpolation=cv2.INTER_AREA) for frame in chosen]
    gap = np.full((_STRIP_HEIGHT, 2, 3), 255, np.uint8)
    return np.concatenate([part for frame in scaled for part in (gap, frame)][1:], axis=1)
