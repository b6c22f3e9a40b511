"""What transforms work on: an image or a clip, together with what belongs to it, such as boxes or a label map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import cv2
import numpy as np

from suites.vision.geometry import IDENTITY, Canvas, Cut, Mirror, Move, Placement, Stretch

Self = TypeVar("Self", bound="VisualSample")


class VisualSample(ABC):
    """Pixels with what belongs to them; never changed in place."""

    @property
    @abstractmethod
    def pixels(self) -> np.ndarray:
        """RGB [..., H, W, 3]: uint8 from a data set, float32 after `Normalize`."""

    @abstractmethod
    def recoloured(self: Self, pixels: np.ndarray) -> Self:
        """The sample with other pixels at the same places."""

    @abstractmethod
    def moved(self: Self, by: Move) -> Self:
        """The sample after a step of geometry: pixels and all that belongs to them."""

    @abstractmethod
    def reclassed(self: Self, classes: Mapping[int, int]) -> Self:
        """The sample with the classes that `classes` names turned into others."""

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) as it is now."""
        height, width = self.pixels.shape[-3:-1]
        return height, width

    def resized(self: Self, size: tuple[int, int], method: int) -> Self:
        """The sample stretched to `size` (H, W); `method` is OpenCV's number of the pixels' interpolation."""
        return self if size == self.size else self.moved(Stretch(self.size, size, method))

    def scaled(self: Self, size: tuple[int, int]) -> Self:
        """The sample stretched to `size` (H, W): by the mean of the covered pixels where both sides shrink."""
        shrinks = size[0] <= self.size[0] and size[1] <= self.size[1]
        return self.resized(size, cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)

    def padded(self: Self, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Self:
        """The sample on a canvas of `size` (H, W) and colour `fill` (RGB in [0, 1]), its corner at (left, top)."""
        return self if size == self.size else self.moved(Canvas(self.size, size, top, left, tuple(fill)))

    def mirrored(self: Self, horizontal: bool) -> Self:
        """The sample with left and right swapped, else top and bottom."""
        return self.moved(Mirror(self.size, horizontal))

    def cropped(self: Self, size: tuple[int, int], top: int, left: int) -> Self:
        """The part of `size` (H, W) whose corner lies at (left, top)."""
        return self.moved(Cut(self.size, size, top, left))


@dataclass(frozen=True, kw_only=True)
class ImageSample(VisualSample):
    """One image. A suite derives a class with what belongs to its images, and says how that moves.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a data set, float32 after `Normalize`.
        placement: where the original image lies in `image`.
    """

    image: np.ndarray
    placement: Placement = IDENTITY

    @property
    def pixels(self) -> np.ndarray:
        """The image."""
        return self.image

    def recoloured(self: ImageSelf, pixels: np.ndarray) -> ImageSelf:
        """The sample with another image of the same things."""
        return replace(self, image=pixels)

    def moved(self: ImageSelf, by: Move) -> ImageSelf:
        """Image, placement and what `belongings` gives, moved."""
        return replace(self, image=by.image(self.image), placement=self.placement.then(by.step), **self.belongings(by))

    def belongings(self, by: Move) -> dict[str, Any]:
        """The fields that move along with the image, moved; none by default."""
        return {}


ImageSelf = TypeVar("ImageSelf", bound=ImageSample)


@dataclass(frozen=True, kw_only=True)
class ClipSample(VisualSample):
    """Some frames of a video, all of one size, which are changed alike.

    Attributes:
        frames: RGB [T, H, W, 3]: uint8 from a data set, float32 after `Normalize`.
    """

    frames: np.ndarray

    @property
    def pixels(self) -> np.ndarray:
        """The frames."""
        return self.frames

    def recoloured(self: ClipSelf, pixels: np.ndarray) -> ClipSelf:
        """The sample with other pixels at the same places."""
        return replace(self, frames=pixels)

    def moved(self: ClipSelf, by: Move) -> ClipSelf:
        """Every frame moved."""
        return replace(self, frames=np.stack([by.image(frame) for frame in self.frames]))


ClipSelf = TypeVar("ClipSelf", bound=ClipSample)


def reclassed(labels: np.ndarray, classes: Mapping[int, int]) -> np.ndarray:
    """Class numbers, of any shape, with those that `classes` names turned into others."""
    found = labels.copy()
    for before, after in classes.items():
        found[labels == before] = after
    return found


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(H, W) times `scale`, rounded, at least 1."""
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
