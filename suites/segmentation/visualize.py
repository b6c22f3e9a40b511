"""Pictures of label maps: classes in their colours over the image, with a legend."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from suites.segmentation.sample import IGNORE
from suites.vision.drawing import enlarged, put_plate

_MOST = 4096  # pixels of a picture's side
_LEAST_SHARE = 0.005  # of the image: smaller classes are not in the legend


def colourise(labels: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """uint8 RGB [H, W, 3] of a label map, uint8 [H, W]; labels beyond the palette, such as `IGNORE`, are black."""
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = palette
    return colours[labels]


def shrunk(image: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An image [H, W, 3] and its labels [H, W] at a size that can be looked at: 4096 pixels a side at most."""
    factor = _MOST / max(labels.shape)
    if factor >= 1:
        return image, labels
    size = max(1, round(labels.shape[1] * factor)), max(1, round(labels.shape[0] * factor))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return small, cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST_EXACT)


def draw_soft(image: np.ndarray, probabilities: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """uint8 RGB [H, W, 3]: the image, half as strong, and a colour over it by its probability [H, W]."""
    share = np.clip(probabilities, 0, 1).astype(np.float32)[..., None]
    pale = 255 - (255 - image.astype(np.float32)) / 2
    found: np.ndarray = np.rint(pale * (1 - share) + np.array(colour, np.float32) * share).astype(np.uint8)
    return found


def draw_labels(
    image: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    palette: Sequence[tuple[int, int, int]],
    opacity: float = 0.6,
) -> np.ndarray:
    """Draws a label map over an image, with the names of the larger classes.

    Args:
        image: uint8 RGB [H, W, 3]. A small one is enlarged by a whole number, so that text stays legible.
        labels: uint8 [H, W]; where it is `IGNORE` the image is left as it is.
        class_names: K names.
        palette: RGB of each class.
        opacity: share of the class's colour.

    Returns:
        uint8 RGB [H * s, W * s, 3], s the whole number.
    """
    blended = cv2.addWeighted(colourise(labels, palette), opacity, image, 1 - opacity, 0)
    canvas, factor = enlarged(np.where((labels == IGNORE)[..., None], image, blended))
    for label in np.unique(labels[labels != IGNORE]).tolist():
        of_class = labels == label
        if of_class.mean() >= _LEAST_SHARE:
            put_plate(canvas, class_names[label], _heart(of_class, factor), palette[label])
    return canvas


def _heart(of_class: np.ndarray, factor: int) -> tuple[int, int]:
    """(x, y), in the enlarged picture, of the pixel of a class that lies deepest inside one of its regions."""
    depth = cv2.distanceTransform(of_class.astype(np.uint8), cv2.DIST_L2, 3)
    y, x = np.unravel_index(int(depth.argmax()), depth.shape)
    return int(x) * factor, int(y) * factor
