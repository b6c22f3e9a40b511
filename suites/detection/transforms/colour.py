"""Transforms that change pixels and leave boxes where they are: colour distortion, mixup, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.detection.transforms.base import MixingTransform, Transform
from suites.engine.registry import register
from suites.vision.colour import ColourMaps, recolour
from suites.vision.pixels import IMAGENET_MEAN, IMAGENET_STD, Normalizer, check_prob


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
        self._maps = ColourMaps(brightness, contrast, saturation, hue, prob, "ColorDistort")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with other colours; its image must be uint8."""
        image = recolour(sample.image, self._maps.draw(sample.image, rng))
        return sample if image is sample.image else replace(sample, image=image)


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
        self._normal = Normalizer(mean, std)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with a float32 image; the given image must be uint8."""
        return replace(sample, image=self._normal(sample.image))


def _on_canvas(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    height, width = image.shape[:2]
    if (height, width) == size:
        return image
    return cv2.copyMakeBorder(image, 0, size[0] - height, 0, size[1] - width, cv2.BORDER_CONSTANT)
