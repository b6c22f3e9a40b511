"""Keypoints of detectors: where heatmaps put the points of an object.

Letters: D objects, L points of an object, S side of a heatmap.
"""

from __future__ import annotations

import cv2
import numpy as np


def located(heatmaps: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Where each heatmap is largest: float32 [D, L, 2], (x, y) in the pixels of the boxes.

    A map is enlarged to the pixels of its box by cubic interpolation, and the point is the centre of the largest pixel
    (He et al. 2017, Mask R-CNN, section 5; torchvision's `heatmaps_to_keypoints`).

    Args:
        heatmaps: float32 [D, S, S, L].
        boxes: float32 [D, 4], within the picture.
    """
    points = np.zeros((len(boxes), heatmaps.shape[-1], 2), np.float32)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1)
    for at, (maps, side) in enumerate(zip(heatmaps, sides, strict=True)):
        width, height = (int(extent) for extent in np.ceil(side))
        for point in range(maps.shape[-1]):
            large = cv2.resize(np.ascontiguousarray(maps[..., point]), (width, height), interpolation=cv2.INTER_CUBIC)
            y, x = divmod(int(large.argmax()), width)
            points[at, point] = (x + 0.5) * side[0] / width, (y + 0.5) * side[1] / height
    return points + boxes[:, None, :2]
