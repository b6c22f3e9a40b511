"""ImageSample: an image that transforms can move together with what belongs to it, such as boxes or a label map.

A placement (ax, ay, bx, by) says where the original image lies: its point (x, y) is at (ax * x + bx, ay * y + by).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

IDENTITY = (1.0, 1.0, 0.0, 0.0)
Self = TypeVar("Self", bound="ImageSample")


class ImageSample(ABC):
    """One image with what belongs to it; never changed in place.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a dataset, float32 after `Normalize`.
        placement: where the original image lies in `image`.
    """

    image: np.ndarray
    placement: tuple[float, float, float, float]

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) of the image as it is now."""
        return self.image.shape[0], self.image.shape[1]

    @abstractmethod
    def recoloured(self: Self, image: np.ndarray) -> Self:
        """The sample with other pixels at the same places."""

    @abstractmethod
    def resized(self: Self, size: tuple[int, int], method: int) -> Self:
        """The sample stretched to `size` (H, W); `method` is OpenCV's number of the image's interpolation."""

    @abstractmethod
    def padded(self: Self, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Self:
        """The sample on a canvas of `size` (H, W) and colour `fill` (RGB in [0, 1]), its corner at (left, top)."""

    @abstractmethod
    def mirrored(self: Self, horizontal: bool) -> Self:
        """The sample with left and right swapped, else top and bottom."""


def then(
    first: tuple[float, float, float, float], second: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """The placement that places by `first` and the result by `second`."""
    px, py, qx, qy = first
    ax, ay, bx, by = second
    return ax * px, ay * py, ax * qx + bx, ay * qy + by


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(H, W) times `scale`, rounded, at least 1."""
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
