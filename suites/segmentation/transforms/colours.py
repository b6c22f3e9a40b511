"""Augmentations that change colours and leave every pixel where it is. They take uint8 images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.engine.registry import register
from suites.segmentation.sample import Sample
from suites.segmentation.transforms.roles import Transform
from suites.vision.augmentation.pixels import check_prob, check_range


@register("transform")
class RandomBlur(Transform):
    """Blurs the image by a Gaussian of a random width.

    Args:
        prob: How often.
        max_sigma: Largest standard deviation, in pixels; the smallest is 0.1.
    """

    def __init__(self, prob: float = 0.1, max_sigma: float = 2.0) -> None:
        self._prob = check_prob("RandomBlur", prob)
        self._range = check_range("RandomBlur", "sigma", (0.1, max_sigma), 0)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, blurred or not."""
        if rng.random() >= self._prob:
            return sample
        return sample.recoloured(cv2.GaussianBlur(sample.image, (0, 0), rng.uniform(*self._range)))


@register("transform")
class RandomNoise(Transform):
    """Adds normal noise to every value.

    Args:
        prob: How often.
        max_sigma: Largest standard deviation, of values 0 to 255.
    """

    def __init__(self, prob: float = 0.5, max_sigma: float = 10.0) -> None:
        self._prob = check_prob("RandomNoise", prob)
        self._range = check_range("RandomNoise", "sigma", (0, max_sigma), 0)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with noise, or not."""
        if rng.random() >= self._prob:
            return sample
        noise = rng.standard_normal(sample.image.shape, np.float32) * rng.uniform(*self._range)
        return sample.recoloured(np.clip(np.rint(sample.image + noise), 0, 255).astype(np.uint8))


@register("transform")
class RandomGamma(Transform):
    """Raises values, as shares of 255, to a random power: exposure that is not linear.

    Args:
        prob: How often.
        gamma: Range of the power.
    """

    def __init__(self, prob: float = 0.5, gamma: Sequence[float] = (0.7, 1.5)) -> None:
        self._prob = check_prob("RandomGamma", prob)
        self._range = check_range("RandomGamma", "gamma", gamma, 1e-2)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, lighter or darker, or as it was."""
        if rng.random() >= self._prob:
            return sample
        gamma = math.exp(rng.uniform(*np.log(self._range)))
        table = np.rint(255 * (np.arange(256) / 255) ** gamma).astype(np.uint8)
        return sample.recoloured(cv2.LUT(sample.image, table))


@register("transform")
class RandomClahe(Transform):
    """Equalizes the lightness of tiles, with a limit on the contrast (Zuiderveld 1994, CLAHE).

    Args:
        prob: How often.
        limit: Of the contrast; 1 is none.
        tiles: Along each side.
    """

    def __init__(self, prob: float = 0.2, limit: float = 4.0, tiles: int = 8) -> None:
        self._prob = check_prob("RandomClahe", prob)
        if limit < 1 or tiles < 1:
            raise AttributeValueError(f"RandomClahe: limit is {limit} and tiles {tiles}; both must be at least 1")
        self._limit, self._tiles = limit, tiles

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with more contrast, or not."""
        if rng.random() >= self._prob:
            return sample
        lab = cv2.cvtColor(sample.image, cv2.COLOR_RGB2LAB)
        equalizer = cv2.createCLAHE(self._limit, (self._tiles, self._tiles))
        lab[..., 0] = equalizer.apply(np.ascontiguousarray(lab[..., 0]))
        return sample.recoloured(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB))


@register("transform")
class RandomGray(Transform):
    """Takes the colours away.

    Args:
        prob: How often.
    """

    def __init__(self, prob: float = 0.1) -> None:
        self._prob = check_prob("RandomGray", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample in grey, or not."""
        if rng.random() >= self._prob:
            return sample
        return sample.recoloured(cv2.cvtColor(cv2.cvtColor(sample.image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB))
