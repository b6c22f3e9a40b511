"""The noun of the segmentation suite: a Sample is one image with a class for every pixel.

Letters: H W image size, K classes. Labels are uint8, 0 to K - 1; `IGNORE` marks pixels that are neither learnt nor
counted: void regions of a data set, and borders that transforms add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from suites.vision.augmentation.pixels import fill_colour
from suites.vision.geometry import IDENTITY, Move, Placement
from suites.vision.sample import ImageSample, reclassed

IGNORE = 255


@dataclass(frozen=True, kw_only=True)
class Sample(ImageSample):
    """One image and its label map, as datasets give it and transforms change it.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a dataset, float32 after `Normalize`.
        labels: uint8 [H, W].
        image_id: number of the image in its dataset.
        truth: uint8, the label map as it is in the file, before any transform: what predictions are compared with.
        placement: where the original image lies in `image`.
    """

    labels: np.ndarray
    image_id: int = 0
    truth: np.ndarray = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.truth is None:
            object.__setattr__(self, "truth", self.labels)

    def belongings(self, by: Move) -> dict[str, Any]:
        """The label map, moved; borders are to be ignored."""
        return {"labels": by.labels(self.labels, IGNORE)}

    def warped(self, matrix: np.ndarray, fill: Sequence[float]) -> Sample:
        """The sample moved by an affine map [2, 3] of (x, y, 1), at the same size.

        What comes from outside has the colour `fill` (RGB in [0, 1]) and is ignored. `placement` cannot say where the
        image lies then, so this is for training only.
        """
        size = self.size[::-1]
        colour = fill_colour(fill, self.image)
        image = cv2.warpAffine(self.image, matrix, size, flags=cv2.INTER_LINEAR, borderValue=colour)
        labels = cv2.warpAffine(self.labels, matrix, size, flags=cv2.INTER_NEAREST, borderValue=IGNORE)
        return replace(self, image=image, labels=labels)

    def turned(self, quarters: int) -> Sample:
        """The sample turned against the clock by so many quarters, for training only as `warped`."""
        image, labels = (np.ascontiguousarray(np.rot90(array, quarters)) for array in (self.image, self.labels))
        return replace(self, image=image, labels=labels)

    def reclassed(self, classes: Mapping[int, int]) -> Sample:
        """The sample with other classes in place of some; `truth` stays as the file has it."""
        return replace(self, labels=reclassed(self.labels, classes))


def soft_to_original(values: np.ndarray, placement: Placement, original_size: tuple[int, int]) -> np.ndarray:
    """A predicted map of numbers (float32 [H, W]) of a network's input, in pixels of the original image (H, W).

    Each pixel takes what lies at its centre's place, between four others; beyond the input, what lies at its border.
    """
    if placement == IDENTITY and values.shape == original_size:
        return values
    ax, ay, bx, by = placement
    height, width = original_size
    columns = (ax * (np.arange(width) + 0.5) + bx - 0.5).astype(np.float32)
    rows = (ay * (np.arange(height) + 0.5) + by - 0.5).astype(np.float32)
    found: np.ndarray = cv2.remap(
        values, *np.meshgrid(columns, rows), interpolation=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return found


def labels_to_original(labels: np.ndarray, placement: Placement, original_size: tuple[int, int]) -> np.ndarray:
    """A predicted label map (uint8 [H, W]) of a network's input, in pixels of the original image (H, W).

    Each pixel takes the label at its centre's place; a part of the original that the input does not show is `IGNORE`.
    """
    if placement == IDENTITY and labels.shape == original_size:
        return labels
    ax, ay, bx, by = placement
    height, width = original_size
    # Pixels are squares: the centre of column i is at i + 1/2, so it lies in column floor(ax * (i + 1/2) + bx).
    columns = np.floor(ax * (np.arange(width) + 0.5) + bx).astype(np.int64)
    rows = np.floor(ay * (np.arange(height) + 0.5) + by).astype(np.int64)
    inside = np.outer((rows >= 0) & (rows < labels.shape[0]), (columns >= 0) & (columns < labels.shape[1]))
    found = labels[rows.clip(0, labels.shape[0] - 1)[:, None], columns.clip(0, labels.shape[1] - 1)]
    return np.where(inside, found, np.uint8(IGNORE))
