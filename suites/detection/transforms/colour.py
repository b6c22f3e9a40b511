"""Transforms that change pixels and leave boxes where they are: colour distortion, mixup, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError, DTypeError
from suites.detection.sample import Sample
from suites.detection.transforms.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    MixingTransform,
    Transform,
    check_prob,
    check_range,
)
from suites.engine.registry import register

_LUMA = np.array([0.299, 0.587, 0.114])
# RGB to luma, in-phase, quadrature (NTSC); a rotation of the last two turns the hue and keeps the luma.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]])
_FROM_YIQ = np.linalg.inv(_TO_YIQ)


@register("transform")
class ColorDistort(Transform):
    """Changes brightness, contrast, saturation and hue, each with probability `prob`, in random order.

    Every one is a linear map of RGB, so they are multiplied into one matrix and the image is passed over once.
    Values are cut to 0..255 at the end only.

    Args:
        brightness: Range of the factor on all values.
        contrast: Range of the factor on the distance from the image's mean grey.
        saturation: Range of the factor on the distance from each pixel's grey.
        hue: Range of the turn of the hue, in degrees.
        prob: How often each of the four is applied.
    """

    def __init__(
        self,
        brightness: Sequence[float] = (0.5, 1.5),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-18.0, 18.0),
        prob: float = 0.5,
    ) -> None:
        self._brightness = check_range("ColorDistort", "brightness", brightness, 0)
        self._contrast = check_range("ColorDistort", "contrast", contrast, 0)
        self._saturation = check_range("ColorDistort", "saturation", saturation, 0)
        self._hue = check_range("ColorDistort", "hue", hue, -180)
        self._prob = check_prob("ColorDistort", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with other colours; its image must be uint8."""
        if sample.image.dtype != np.uint8:
            raise DTypeError(f"ColorDistort: the image is {sample.image.dtype}; put ColorDistort before Normalize")
        steps = [self._bright, self._contrasted, self._saturated, self._turned]
        colour_map = np.eye(3, 4)
        mean = np.array(cv2.mean(sample.image)[:3])
        for choice in rng.permutation(len(steps)):
            if rng.random() < self._prob:
                step = steps[choice](rng, float(_LUMA @ (colour_map @ [*mean, 1.0])))
                colour_map = step[:, :3] @ colour_map + np.pad(step[:, 3:], ((0, 0), (3, 0)))
        if np.array_equal(colour_map, np.eye(3, 4)):
            return sample
        return replace(sample, image=cv2.transform(sample.image, colour_map))

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


@register("transform")
class Mixup(MixingTransform):
    """Adds another sample to this one, with weights; the boxes of both remain, weighted (Zhang et al. 2018, 2019).

    The weight w comes from Beta(alpha, beta). The canvas is as large as both; each image lies at its top left.
    A box's `score` is multiplied by w or 1 - w. Needs `Augmented`, which draws the other sample.

    Args:
        alpha, beta: Of the Beta distribution.
        prob: How often samples are mixed at all.
    """

    def __init__(self, alpha: float = 1.5, beta: float = 1.5, prob: float = 1.0) -> None:
        if alpha <= 0 or beta <= 0:
            raise AttributeValueError(f"Mixup: alpha is {alpha} and beta {beta}; both must be above 0")
        self._alpha, self._beta = alpha, beta
        self._prob = check_prob("Mixup", prob)

    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the mixture with one drawn sample; `image_id` and `placement` stay those of `sample`."""
        if rng.random() >= self._prob:
            return sample
        weight = float(rng.beta(self._alpha, self._beta))
        other = draw()
        size = max(sample.size[0], other.size[0]), max(sample.size[1], other.size[1])
        image = cv2.addWeighted(_on_canvas(sample.image, size), weight, _on_canvas(other.image, size), 1 - weight, 0)
        return Sample(
            image=image,
            boxes=np.concatenate([sample.boxes, other.boxes]),
            labels=np.concatenate([sample.labels, other.labels]),
            image_id=sample.image_id,
            original_size=sample.original_size,
            scores=np.concatenate([sample.scores * weight, other.scores * (1 - weight)]).astype(np.float32),
            difficult=np.concatenate([sample.difficult, other.difficult]),
            crowd=np.concatenate([sample.crowd, other.crowd]),
            placement=sample.placement,
        )


@register("transform")
class Normalize(Transform):
    """Makes the image float32: (value / 255 - mean) / std, a channel at a time.

    Args:
        mean, std: Of red, green, blue, for values in [0, 1]; ImageNet's by default.
    """

    def __init__(self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD) -> None:
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0:
            raise AttributeValueError(
                f"Normalize: mean is {list(mean)} and std {list(std)}; each needs 3 numbers, std above 0"
            )
        scale = 1 / (255 * np.asarray(std, np.float64))
        self._scale = scale.astype(np.float32)
        self._shift = (-np.asarray(mean, np.float64) * 255 * scale).astype(np.float32)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with a float32 image; the given image must be uint8."""
        if sample.image.dtype != np.uint8:
            raise DTypeError(f"Normalize: the image is {sample.image.dtype}; it takes uint8, so use it once")
        image = sample.image * self._scale
        image += self._shift
        return replace(sample, image=image)


def hue_matrix(degrees: float) -> np.ndarray:
    """The map of RGB [3, 3] that turns the hue and keeps luma and saturation (in YIQ)."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
    return _FROM_YIQ @ turn @ _TO_YIQ


def _on_canvas(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    height, width = image.shape[:2]
    if (height, width) == size:
        return image
    return cv2.copyMakeBorder(image, 0, size[0] - height, 0, size[1] - width, cv2.BORDER_CONSTANT)
