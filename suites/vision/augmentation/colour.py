"""Random changes of brightness, contrast, saturation and hue, as one linear map of RGB."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from framework.errors import DTypeError
from suites.vision.augmentation.pixels import check_prob, check_range

_LUMA = np.array([0.299, 0.587, 0.114])
# RGB to luma, in-phase, quadrature (NTSC); a rotation of the last two turns the hue and keeps the luma.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])
_FROM_YIQ = np.linalg.inv(_TO_YIQ)


class ColourMaps:
    """Draws colour maps: each of four changes with probability `prob`, in random order, multiplied into one.

    Args:
        brightness: range of the factor on all values.
        contrast: range of the factor on the distance from the image's mean grey.
        saturation: range of the factor on the distance from each pixel's grey.
        hue: range of the turn of the hue, in degrees.
        prob: how often each of the four is applied.
        who: the name that errors begin with.
    """

    def __init__(
        self,
        brightness: Sequence[float],
        contrast: Sequence[float],
        saturation: Sequence[float],
        hue: Sequence[float],
        prob: float,
        who: str,
    ) -> None:
        self._brightness = check_range(who, "brightness", brightness, 0)
        self._contrast = check_range(who, "contrast", contrast, 0)
        self._saturation = check_range(who, "saturation", saturation, 0)
        self._hue = check_range(who, "hue", hue, -180)
        self._prob = check_prob(who, prob)
        self._who = who

    def draw(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A map [3, 4] for `image` (uint8 [..., H, W, 3], for its mean grey) and those like it; see `recolour`."""
        if image.dtype != np.uint8:
            raise DTypeError(f"{self._who}: the image is {image.dtype}; put {self._who} before Normalize")
        steps = [self._bright, self._contrasted, self._saturated, self._turned]
        colour_map = np.eye(3, 4)
        mean = np.array(cv2.mean(_in_rows(image))[:3])
        for choice in rng.permutation(len(steps)):
            if rng.random() < self._prob:
                step = steps[choice](rng, float(_LUMA @ (colour_map @ [*mean, 1.0])))
                colour_map = step[:, :3] @ colour_map + np.pad(step[:, 3:], ((0, 0), (3, 0)))
        return colour_map

    def _bright(self, rng: np.random.Generator, grey: float) -> np.ndarray:
        return rng.uniform(*self._brightness) * np.eye(3, 4)

    def _contrasted(self, rng: np.random.Generator, grey: float) -> np.ndarray:
        factor = rng.uniform(*self._contrast)
        return np.hstack([factor * np.eye(3), np.full((3, 1), (1 - factor) * grey)])

    def _saturated(self, rng: np.random.Generator, grey: float) -> np.ndarray:
        factor = rng.uniform(*self._saturation)
        return np.hstack([factor * np.eye(3) + (1 - factor) * _LUMA, np.zeros((3, 1))])

    def _turned(self, rng: np.random.Generator, grey: float) -> np.ndarray:
        return np.hstack([hue_matrix(rng.uniform(*self._hue)), np.zeros((3, 1))])


def recolour(image: np.ndarray, colour_map: np.ndarray) -> np.ndarray:
    """uint8 pixels [..., H, W, 3] through a map [3, 4] of (red, green, blue, 1); cut to 0..255 at the end only."""
    if np.array_equal(colour_map, np.eye(3, 4)):
        return image
    return cv2.transform(_in_rows(image), colour_map).reshape(image.shape)


def _in_rows(image: np.ndarray) -> np.ndarray:
    """Pixels [..., H, W, 3] as OpenCV takes them: [rows, W, 3]."""
    return image if image.ndim == 3 else np.ascontiguousarray(image).reshape(-1, *image.shape[-2:])


def hue_matrix(degrees: float) -> np.ndarray:
    """The map of RGB [3, 3] that turns the hue and keeps luma and saturation (in YIQ)."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
    return _FROM_YIQ @ turn @ _TO_YIQ


def with_colour(image: np.ndarray, share: float) -> np.ndarray:
    """A uint8 RGB image with `share` of its colour: 0 is grey, 1 the image, more is more colourful."""
    return _blended(_grey(image)[..., None], image, share)


def with_contrast(image: np.ndarray, share: float) -> np.ndarray:
    """A uint8 RGB image with `share` of its distance from its mean grey."""
    return _blended(np.array(_grey(image).mean(), np.float32), image, share)


def with_brightness(image: np.ndarray, share: float) -> np.ndarray:
    """A uint8 RGB image `share` times as bright."""
    return _blended(np.zeros((), np.float32), image, share)


def with_sharpness(image: np.ndarray, share: float) -> np.ndarray:
    """A uint8 RGB image with `share` of its distance from itself blurred: below 1 softer, above 1 sharper."""
    kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    return _blended(cv2.filter2D(image, -1, kernel).astype(np.float32), image, share)


def equalized(image: np.ndarray) -> np.ndarray:
    """A uint8 RGB image in which each channel has every value about equally often."""
    return np.stack([cv2.equalizeHist(np.ascontiguousarray(image[..., c])) for c in range(3)], axis=-1)


def _grey(image: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)


def _blended(other: np.ndarray, image: np.ndarray, share: float) -> np.ndarray:
    """`other` and the image mixed: `share` parts of the image, which may be more than 1."""
    return np.clip(np.rint(other + share * (image.astype(np.float32) - other)), 0, 255).astype(np.uint8)
