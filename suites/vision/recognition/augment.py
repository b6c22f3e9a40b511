"""Stronger augmentation for recognition: RandAugment, cutmix; all frames of a clip are changed alike.

Letters: H W height and width of a frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError, DataError, DTypeError
from suites.vision.augmentation.colour import equalized, with_brightness, with_colour, with_contrast, with_sharpness
from suites.vision.augmentation.covering import Rectangle
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.augmentation.pixels import check_prob
from suites.vision.recognition.sample import Labelled

Frame = np.ndarray  # uint8 RGB [H, W, 3]
_GREY = (128, 128, 128)
_MOST = 30.0  # magnitudes go up to it


class RandAugment(Transform):
    """Draws `count` changes out of 14, all of one strength (Cubuk et al. 2020, arXiv:1909.13719).

    They are: identity, contrast by a curve to the full range, equalised histogram, rotation, posterisation,
    solarisation, colour, contrast, brightness, sharpness, shears and shifts in both directions.

    Args:
        count: how many changes follow each other.
        magnitude: strength, from 0 to 30.
    """

    def __init__(self, count: int = 2, magnitude: float = 9.0) -> None:
        if count < 0 or not 0 <= magnitude <= _MOST:
            raise AttributeValueError(
                f"RandAugment: count is {count} and magnitude {magnitude}; count is not negative, magnitude in [0, 30]"
            )
        self._count, self._strength = count, magnitude / _MOST

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the changed sample; its pixels must be uint8."""
        if sample.pixels.dtype != np.uint8:
            raise DTypeError(f"RandAugment: the image is {sample.pixels.dtype}; put RandAugment before Normalize")
        pixels = sample.pixels
        for _ in range(self._count):
            change = _CHANGES[int(rng.integers(len(_CHANGES)))]
            sign = 1.0 if rng.random() < 0.5 else -1.0
            frames = pixels.reshape(-1, *pixels.shape[-3:])
            pixels = np.stack([change(frame, self._strength, sign) for frame in frames]).reshape(pixels.shape)
        return sample.recoloured(pixels)


def _warped(frame: Frame, rows: Sequence[Sequence[float]]) -> Frame:
    """The frame after an affine map [2, 3] of places, which is around its middle."""
    height, width = frame.shape[:2]
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    matrix = np.array(rows, np.float64)
    matrix[:, 2] += middle - matrix[:, :2] @ middle
    return cv2.warpAffine(frame, matrix, (width, height), flags=cv2.INTER_LINEAR, borderValue=_GREY)


def _rotate(frame: Frame, strength: float, sign: float) -> Frame:
    angle = math.radians(30 * strength * sign)
    cos, sin = math.cos(angle), math.sin(angle)
    return _warped(frame, [[cos, -sin, 0], [sin, cos, 0]])


def _shear_x(frame: Frame, strength: float, sign: float) -> Frame:
    return _warped(frame, [[1, 0.3 * strength * sign, 0], [0, 1, 0]])


def _shear_y(frame: Frame, strength: float, sign: float) -> Frame:
    return _warped(frame, [[1, 0, 0], [0.3 * strength * sign, 1, 0]])


def _shift_x(frame: Frame, strength: float, sign: float) -> Frame:
    return _warped(frame, [[1, 0, 0.45 * strength * sign * frame.shape[1]], [0, 1, 0]])


def _shift_y(frame: Frame, strength: float, sign: float) -> Frame:
    return _warped(frame, [[1, 0, 0], [0, 1, 0.45 * strength * sign * frame.shape[0]]])


def _share(strength: float, sign: float) -> float:
    return 1 + 0.9 * strength * sign


def _colour(frame: Frame, strength: float, sign: float) -> Frame:
    return with_colour(frame, _share(strength, sign))


def _contrast(frame: Frame, strength: float, sign: float) -> Frame:
    return with_contrast(frame, _share(strength, sign))


def _brightness(frame: Frame, strength: float, sign: float) -> Frame:
    return with_brightness(frame, _share(strength, sign))


def _sharpness(frame: Frame, strength: float, sign: float) -> Frame:
    return with_sharpness(frame, _share(strength, sign))


def _posterize(frame: Frame, strength: float, sign: float) -> Frame:
    return frame & np.uint8(0xFF << round(4 * strength) & 0xFF)


def _solarize(frame: Frame, strength: float, sign: float) -> Frame:
    return np.where(frame < 256 * (1 - strength), frame, 255 - frame)


def _auto_contrast(frame: Frame, strength: float, sign: float) -> Frame:
    low = frame.min(axis=(0, 1)).astype(np.float32)
    span = frame.max(axis=(0, 1)) - low
    scaled = (frame - low) * (255 / np.maximum(span, 1))
    return np.where(span > 0, np.rint(scaled), frame).astype(np.uint8)


def _equalize(frame: Frame, strength: float, sign: float) -> Frame:
    return equalized(frame)


def _identity(frame: Frame, strength: float, sign: float) -> Frame:
    return frame


_CHANGES: tuple[Callable[[Frame, float, float], Frame], ...] = (
    _identity, _auto_contrast, _equalize, _rotate, _posterize, _solarize, _colour, _contrast, _brightness, _sharpness,
    _shear_x, _shear_y, _shift_x, _shift_y,
)  # fmt: skip


class CutMix(BatchTransform):
    """Puts a rectangle of another sample of the batch into each; both labels count by area (Yun et al. 2019).

    Args:
        alpha: the area that stays comes from Beta(alpha, alpha), one for a batch.
        prob: how often batches are mixed at all.
    """

    def __init__(self, alpha: float = 1.0, prob: float = 1.0) -> None:
        if alpha <= 0:
            raise AttributeValueError(f"CutMix: alpha is {alpha}; it must be above 0")
        self._alpha = alpha
        self._prob = check_prob("CutMix", prob)

    def __call__(self, samples: list[Labelled], rng: np.random.Generator) -> list[Labelled]:
        """Returns the mixtures; all pixels must be of one size."""
        if rng.random() >= self._prob:
            return samples
        shapes = {sample.pixels.shape for sample in samples}
        if len(shapes) > 1:
            raise DataError(
                f"CutMix: the batch has samples of {len(shapes)} sizes; end the transforms with a crop or Resize"
            )
        height, width = samples[0].size
        top, bottom, left, right = Rectangle.of_cutmix((height, width), self._alpha, rng)
        stays = np.float32(1 - (bottom - top) * (right - left) / (height * width))
        others = [samples[i] for i in rng.permutation(len(samples))]
        mixed = []
        for a, b in zip(samples, others, strict=True):
            pixels = a.pixels.copy()
            pixels[..., top:bottom, left:right, :] = b.pixels[..., top:bottom, left:right, :]
            mixed.append(both(a.recoloured(pixels), b, stays))
        return mixed


def both(a: Labelled, b: Labelled, share: np.float32) -> Labelled:
    """`a` with the labels of both; those of `a` count `share`, those of `b` the rest."""
    return replace(
        a,
        labels=np.concatenate([a.labels, b.labels]),
        weights=np.concatenate([share * a.weights, (1 - share) * b.weights]),
    )
