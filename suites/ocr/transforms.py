"""Augmentation of pages and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.engine.registry import register, register_role
from suites.ocr.sample import LineSample, PageSample
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.transforms import ColorDistort
from suites.vision.sample import scaled_size

register_role("transform", Transform, doc="sample -> sample, of a training pipeline")
register("transform")(ColorDistort)


@register("transform")
class RandomTextCrop(Transform):
    """Scales a page at random and cuts a square out of it, most often around a text. What is missing is black.

    Args:
        size: side of the square in pixels, a multiple of 32.
        scale: range of the factor, drawn evenly in its logarithm.
        around: how often the square lies around a text.
    """

    def __init__(self, size: int = 640, scale: Sequence[float] = (0.5, 2.0), around: float = 0.9) -> None:
        if size < 32 or size % 32:
            raise AttributeValueError(f"RandomTextCrop: size is {size}; it must be a multiple of 32")
        if len(scale) != 2 or not 0 < scale[0] <= scale[1]:
            raise AttributeValueError(f"RandomTextCrop: scale is {list(scale)}; needed is 0 < least <= most")
        self._size, self._scale, self._around = size, tuple(scale), around

    def __call__(self, sample: PageSample, rng: np.random.Generator) -> PageSample:
        """Returns the square."""
        factor = float(np.exp(rng.uniform(*np.log(self._scale))))
        sample = sample.scaled(scaled_size(sample.size, factor))
        height, width = (max(side, self._size) for side in sample.size)
        sample = sample.padded((height, width), 0, 0, (0.0, 0.0, 0.0))
        top, left = (int(rng.integers(0, side - self._size + 1)) for side in (height, width))
        legible = [polygon for polygon, skip in zip(sample.polygons, sample.ignored, strict=True) if not skip]
        if legible and rng.random() < self._around:
            x, y = legible[int(rng.integers(len(legible)))].mean(axis=0)
            shift = rng.uniform(0.2, 0.8, 2) * self._size
            top = int(np.clip(y - shift[0], 0, height - self._size))
            left = int(np.clip(x - shift[1], 0, width - self._size))
        return sample.cropped((self._size, self._size), top, left)


@register("transform")
class LineWarp(Transform):
    """Moves the corners of a line a little, and blurs it or adds noise, each with probability `prob`.

    Args:
        shift: largest move of a corner, as a share of the height.
        blur: largest standard deviation of the blur, as a share of the height.
        noise: largest standard deviation of the noise, of 255.
        prob: how often each of the three is applied.
    """

    def __init__(self, shift: float = 0.1, blur: float = 0.03, noise: float = 0.05, prob: float = 0.4) -> None:
        if min(shift, blur, noise) < 0 or not 0 <= prob <= 1:
            raise AttributeValueError("LineWarp: shift, blur and noise must be 0 or more, and prob between 0 and 1")
        self._shift, self._blur, self._noise, self._prob = shift, blur, noise, prob

    def __call__(self, sample: LineSample, rng: np.random.Generator) -> LineSample:
        """Returns the changed line."""
        image, height = sample.image, sample.size[0]
        if rng.random() < self._prob:
            image = self._warped(image, rng)
        if rng.random() < self._prob and (sigma := rng.uniform(0, self._blur) * height) > 0.1:
            image = cv2.GaussianBlur(image, (0, 0), sigma)
        if rng.random() < self._prob:
            drawn = rng.normal(0, rng.uniform(0, self._noise) * 255, image.shape)
            image = np.clip(image + drawn, 0, 255).astype(np.uint8)
        return replace(sample, image=image)

    def _warped(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        height, width = image.shape[:2]
        corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        moved = corners + rng.uniform(-self._shift, self._shift, (4, 2)).astype(np.float32) * height
        matrix = cv2.getPerspectiveTransform(corners, moved)
        return np.asarray(cv2.warpPerspective(image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE))
