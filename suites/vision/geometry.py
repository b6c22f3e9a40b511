"""How pictures move: one set of steps for images, boxes, masks, label maps and the frames of clips.

A `Move` is one step: it knows the size before and after, what becomes of pixels, and where points go. Coordinates are
in pixels; a pixel is a square, so column i reaches from i to i + 1. Letters: H W size, M boxes, P points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np

from framework.pictures import resize_cubic
from suites.vision.augmentation.pixels import fill_colour


class Placement(NamedTuple):
    """Where a picture lies in another: its point (x, y) is at (ax * x + bx, ay * y + by)."""

    ax: float = 1.0
    ay: float = 1.0
    bx: float = 0.0
    by: float = 0.0

    def then(self, second: Placement) -> Placement:
        """The placement that places by this one and the result by `second`."""
        ax, ay, bx, by = second
        return Placement(ax * self.ax, ay * self.ay, ax * self.bx + bx, ay * self.by + by)

    def inverse(self) -> Placement:
        """The placement that leads back."""
        return Placement(1 / self.ax, 1 / self.ay, -self.bx / self.ax, -self.by / self.ay)

    @property
    def mirrors(self) -> bool:
        """Whether it turns left into right."""
        return self.ax * self.ay < 0

    def points(self, points: np.ndarray) -> np.ndarray:
        """Points [..., 2] (x, y) where this puts them."""
        return points * np.array([self.ax, self.ay]) + np.array([self.bx, self.by])

    def boxes(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes [M, 4] where this puts them, float32; x1 <= x2 and y1 <= y2 even if mirrored."""
        x = boxes[:, 0::2] * self.ax + self.bx
        y = boxes[:, 1::2] * self.ay + self.by
        return np.stack((x.min(1), y.min(1), x.max(1), y.max(1)), axis=1).astype(np.float32)


IDENTITY = Placement()


@dataclass(frozen=True)
class Move(ABC):
    """One step of geometry.

    Attributes:
        before: (H, W) of the picture that is moved.
    """

    before: tuple[int, int]

    @property
    @abstractmethod
    def after(self) -> tuple[int, int]:
        """(H, W) of the result."""

    @property
    @abstractmethod
    def step(self) -> Placement:
        """Where the picture lies in the result."""

    @abstractmethod
    def image(self, image: np.ndarray) -> np.ndarray:
        """The picture [H, W, 3], uint8 or float32, moved."""

    @abstractmethod
    def labels(self, labels: np.ndarray, fill: int) -> np.ndarray:
        """A map [H, W] moved: each place takes one label of the map, never a mean; `fill` where it has none."""


@dataclass(frozen=True)
class Stretch(Move):
    """To another size; `interpolation` is OpenCV's number of the image's."""

    size: tuple[int, int]
    interpolation: int = cv2.INTER_LINEAR

    @property
    def after(self) -> tuple[int, int]:
        """The size."""
        return self.size

    @property
    def step(self) -> Placement:
        """Scales both axes."""
        return Placement(self.size[1] / self.before[1], self.size[0] / self.before[0])

    def image(self, image: np.ndarray) -> np.ndarray:
        """Interpolated; cubic for bytes by `framework.pictures`, whose bits no processor changes."""
        if (
            self.interpolation == cv2.INTER_CUBIC
            and image.dtype == np.uint8
            and image.ndim == 3
            and image.shape[2] == 3
        ):
            return resize_cubic(image, self.size)
        return cv2.resize(image, self.size[::-1], interpolation=self.interpolation)

    def labels(self, labels: np.ndarray, fill: int) -> np.ndarray:
        """The nearest pixel's."""
        return cv2.resize(labels, self.size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)


@dataclass(frozen=True)
class Canvas(Move):
    """Onto a canvas of `size`, its corner at (left, top); `fill` is RGB in [0, 1]."""

    size: tuple[int, int]
    top: int
    left: int
    fill: Sequence[float]

    @property
    def after(self) -> tuple[int, int]:
        """The canvas."""
        return self.size

    @property
    def step(self) -> Placement:
        """To the corner."""
        return Placement(bx=self.left, by=self.top)

    def image(self, image: np.ndarray) -> np.ndarray:
        """With a border of the colour."""
        return self._border(image, fill_colour(self.fill, image))

    def labels(self, labels: np.ndarray, fill: int) -> np.ndarray:
        """With a border of `fill`."""
        return self._border(labels, fill)

    def _border(self, array: np.ndarray, value: Any) -> np.ndarray:
        bottom, right = self.size[0] - self.before[0] - self.top, self.size[1] - self.before[1] - self.left
        return cv2.copyMakeBorder(array, self.top, bottom, self.left, right, cv2.BORDER_CONSTANT, value=value)


@dataclass(frozen=True)
class Mirror(Move):
    """Left and right swapped, else top and bottom."""

    horizontal: bool = True

    @property
    def after(self) -> tuple[int, int]:
        """The same size."""
        return self.before

    @property
    def step(self) -> Placement:
        """About the middle."""
        return Placement(ax=-1, bx=self.before[1]) if self.horizontal else Placement(ay=-1, by=self.before[0])

    def image(self, image: np.ndarray) -> np.ndarray:
        """Mirrored."""
        return cv2.flip(image, 1 if self.horizontal else 0)

    def labels(self, labels: np.ndarray, fill: int) -> np.ndarray:
        """Mirrored."""
        return self.image(labels)


@dataclass(frozen=True)
class Cut(Move):
    """The part of `size` whose corner lies at (left, top), which must lie inside."""

    size: tuple[int, int]
    top: int
    left: int

    @property
    def after(self) -> tuple[int, int]:
        """Of the part."""
        return self.size

    @property
    def step(self) -> Placement:
        """From the corner."""
        return Placement(bx=-self.left, by=-self.top)

    def image(self, image: np.ndarray) -> np.ndarray:
        """The part."""
        part = image[self.top : self.top + self.size[0], self.left : self.left + self.size[1]]
        return np.ascontiguousarray(part)

    def labels(self, labels: np.ndarray, fill: int) -> np.ndarray:
        """The part."""
        return self.image(labels)
