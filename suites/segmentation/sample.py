"""The noun of the segmentation suite: a Sample is one image with a class for every pixel.

Letters: H W image size, K classes. Labels are uint8, 0 to K - 1; `IGNORE` marks pixels that are neither learnt nor
counted: void regions of a data set, and borders that transforms add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from suites.vision.pixels import fill_colour, mirror, on_canvas, stretch
from suites.vision.sample import IDENTITY, ImageSample, then

IGNORE = 255


@dataclass
class Sample(ImageSample):
    """One image and its label map, as datasets give it and transforms change it.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a dataset, float32 after `Normalize`.
        labels: uint8 [H, W].
        image_id: number of the image in its dataset.
        truth: uint8, the label map as it is in the file, before any transform: what predictions are compared with.
        placement: (ax, ay, bx, by): a point (x, y) of the original image lies at (ax*x + bx, ay*y + by) here.
    """

    image: np.ndarray
    labels: np.ndarray
    image_id: int = 0
    truth: np.ndarray = field(default=None)  # type: ignore[arg-type]
    placement: tuple[float, float, float, float] = IDENTITY

    def __post_init__(self) -> None:
        if self.truth is None:
            self.truth = self.labels

    def recoloured(self, image: np.ndarray) -> Sample:
        """The sample with other pixels at the same places."""
        return replace(self, image=image)

    def resized(self, size: tuple[int, int], method: int) -> Sample:
        """The sample stretched to `size` (H, W); labels take the nearest pixel's."""
        if size == self.size:
            return self
        (height, width), (new_height, new_width) = self.size, size
        labels = stretch(self.labels, size, cv2.INTER_NEAREST_EXACT)
        return self._moved(stretch(self.image, size, method), labels, (new_width / width, new_height / height, 0, 0))

    def padded(self, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Sample:
        """The sample on a canvas of `size` (H, W), its corner at (left, top); the border is to be ignored."""
        if size == self.size:
            return self
        image = on_canvas(self.image, size, top, left, fill_colour(fill, self.image))
        return self._moved(image, on_canvas(self.labels, size, top, left, IGNORE), (1, 1, left, top))

    def mirrored(self, horizontal: bool) -> Sample:
        """The sample with left and right swapped, else top and bottom."""
        height, width = self.size
        step = (-1, 1, width, 0) if horizontal else (1, -1, 0, height)
        return self._moved(mirror(self.image, horizontal), mirror(self.labels, horizontal), step)

    def cropped(self, size: tuple[int, int], top: int, left: int) -> Sample:
        """The part of `size` (H, W) whose corner lies at (left, top)."""
        part = slice(top, top + size[0]), slice(left, left + size[1])
        image, labels = (np.ascontiguousarray(pixels[part]) for pixels in (self.image, self.labels))
        return self._moved(image, labels, (1, 1, -left, -top))

    def _moved(self, image: np.ndarray, labels: np.ndarray, step: tuple[float, float, float, float]) -> Sample:
        return replace(self, image=image, labels=labels, placement=then(self.placement, step))


def labels_to_original(
    labels: np.ndarray, placement: Sequence[float] | np.ndarray, original_size: tuple[int, int]
) -> np.ndarray:
    """A predicted label map (uint8 [H, W]) of a network's input, in pixels of the original image (H, W).

    Each pixel takes the label at its centre's place; a part of the original that the input does not show is `IGNORE`.
    """
    ax, ay, bx, by = (float(value) for value in placement)
    if (ax, ay, bx, by) == IDENTITY and labels.shape == original_size:
        return labels
    height, width = original_size
    # Pixels are squares: the centre of column i is at i + 1/2, so it lies in column floor(ax * (i + 1/2) + bx).
    columns = np.floor(ax * (np.arange(width) + 0.5) + bx).astype(np.int64)
    rows = np.floor(ay * (np.arange(height) + 0.5) + by).astype(np.int64)
    inside = np.outer((rows >= 0) & (rows < labels.shape[0]), (columns >= 0) & (columns < labels.shape[1]))
    found = labels[rows.clip(0, labels.shape[0] - 1)[:, None], columns.clip(0, labels.shape[1] - 1)]
    return np.where(inside, found, np.uint8(IGNORE))
