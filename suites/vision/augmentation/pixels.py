"""What the transforms of all image suites share: checks of their arguments, interpolation, normalisation.

Images are RGB [H, W, 3]: uint8, or float32 once normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from framework.errors import AttributeValueError, DTypeError

INTERPOLATIONS = {
    "nearest": cv2.INTER_NEAREST,
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "lanczos": cv2.INTER_LANCZOS4,
}
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def pair(size: int | Sequence[int], who: str) -> tuple[int, int]:
    """(H, W) from one number (a square) or two; at least 1 each."""
    values = (size, size) if isinstance(size, int) else tuple(size)
    if len(values) != 2 or min(values) < 1:
        raise AttributeValueError(f"{who}: size is {size}; it must be one number or [height, width], at least 1")
    return int(values[0]), int(values[1])


def check_range(who: str, name: str, value: Sequence[float], least: float) -> tuple[float, float]:
    """A (low, high) pair with least <= low <= high."""
    if len(value) != 2 or not least <= value[0] <= value[1]:
        raise AttributeValueError(f"{who}: {name} is {list(value)}; it must be [low, high] with {least} <= low <= high")
    return float(value[0]), float(value[1])


def check_prob(who: str, prob: float) -> float:
    """A probability."""
    if not 0 <= prob <= 1:
        raise AttributeValueError(f"{who}: prob is {prob}; it must be in [0, 1]")
    return prob


def interpolation(name: str, rng: np.random.Generator) -> int:
    """OpenCV's number of an interpolation; `random` draws one of them."""
    if name == "random":
        name = list(INTERPOLATIONS)[int(rng.integers(len(INTERPOLATIONS)))]
    return INTERPOLATIONS[name]


def fill_colour(fill: Sequence[float], image: np.ndarray) -> tuple[Any, ...]:
    """A fill given as RGB in [0, 1], in the units of an image: 0 to 255 where it is uint8."""
    scale = 255.0 if image.dtype == np.uint8 else 1.0
    colour = [value * scale for value in fill]
    return tuple(round(c) for c in colour) if image.dtype == np.uint8 else tuple(colour)


class Normalizer:
    """uint8 images to float32: (value / 255 - mean) / std, a channel at a time.

    Args:
        mean, std: of red, green, blue, for values in [0, 1].
        who: the name that errors begin with.
    """

    def __init__(
        self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD, who: str = "Normalize"
    ) -> None:
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise AttributeValueError(
                f"{who}: mean is {list(mean)} and std {list(std)}; each needs 3 numbers, std above 0"
            )
        scale = 1 / (255 * np.asarray(std, np.float64))
        self._scale = scale.astype(np.float32)
        self._shift = (-np.asarray(mean, np.float64) * 255 * scale).astype(np.float32)
        self._who = who

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """The float32 image [..., 3] of a uint8 one."""
        if image.dtype != np.uint8:
            raise DTypeError(f"{self._who}: the image is {image.dtype}; it takes uint8, so use it once")
        normal = image * self._scale
        normal += self._shift
        return normal
