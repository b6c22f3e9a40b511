"""Transforms that cover parts of an image or clip, a rectangle or a grid, so that a network looks at the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from framework.errors import AttributeValueError, DTypeError
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range, fill_colour
from suites.vision.sample import VisualSample

SampleType = TypeVar("SampleType", bound=VisualSample)


class Rectangle(NamedTuple):
    """Rows `top` to `bottom` and columns `left` to `right` of a frame, ends left out."""

    top: int
    bottom: int
    left: int
    right: int

    @classmethod
    def of_cutmix(cls, size: tuple[int, int], alpha: float, rng: np.random.Generator) -> Rectangle:
        """Draws what CutMix replaces in frames of `size` (height, width) (Yun et al. 2019, arXiv:1905.04899, eq. 2).

        Before it is cut at the frame, it has the frame's shape and the share 1 - w of its area, w from
        Beta(alpha, alpha); its middle is uniform.
        """
        height, width = size
        side = math.sqrt(1 - rng.beta(alpha, alpha))  # as a share of the frame's
        y, x = rng.uniform(0, height), rng.uniform(0, width)
        top, bottom = (round(min(max(y + sign * side * height / 2, 0), height)) for sign in (-1, 1))
        left, right = (round(min(max(x + sign * side * width / 2, 0), width)) for sign in (-1, 1))
        return cls(top, bottom, left, right)


class RandomErasing(Transform):
    """Fills a random rectangle (Zhong et al. 2020, arXiv:1708.04896); after `Normalize`.

    Args:
        prob: how often.
        area: range of the rectangle's area, as a share of the frame's.
        ratio: range of its height over its width.
        fill: "zero", the mean colour once normalised, or "noise", normal numbers.
    """

    def __init__(
        self,
        prob: float = 0.25,
        area: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        fill: Literal["zero", "noise"] = "zero",
    ) -> None:
        self._prob = check_prob("RandomErasing", prob)
        self._area = check_range("RandomErasing", "area", area, 1e-4)
        self._ratio = check_range("RandomErasing", "ratio", ratio, 1e-2)
        self._fill = fill
        if self._area[1] > 1:
            raise AttributeValueError(f"RandomErasing: area is {list(area)}; a part is at most the frame, 1")

    def __call__(self, sample: SampleType, rng: np.random.Generator) -> SampleType:
        """Returns the sample with a rectangle filled; its pixels must be float32."""
        if sample.pixels.dtype != np.float32:
            raise DTypeError(f"RandomErasing: the image is {sample.pixels.dtype}; put RandomErasing after Normalize")
        if rng.random() >= self._prob:
            return sample
        height, width = sample.size
        area = height * width * rng.uniform(*self._area)
        ratio = math.exp(rng.uniform(*np.log(self._ratio)))
        h, w = min(height, max(1, round(math.sqrt(area * ratio)))), min(width, max(1, round(math.sqrt(area / ratio))))
        top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
        pixels = sample.pixels.copy()
        part = pixels[..., top : top + h, left : left + w, :]
        part[...] = 0 if self._fill == "zero" else rng.standard_normal(part.shape, np.float32)
        return sample.recoloured(pixels)


class GridMask(Transform):
    """Covers squares of a grid (Chen et al. 2020, arXiv:2001.04086, section 3); labels and boxes stay.

    Args:
        unit: range of the distance from square to square, in pixels of the image at this point.
        kept: share of a unit's side that no square covers: 0.6 leaves 0.84 of the image in sight.
        prob: how often.
        fill: RGB of the squares, in [0, 1]; the mean colour, which normalises to 0.
    """

    def __init__(
        self,
        unit: Sequence[int] = (96, 224),
        kept: float = 0.6,
        prob: float = 0.7,
        fill: Sequence[float] = IMAGENET_MEAN,
    ) -> None:
        self._unit = check_range("GridMask", "unit", unit, 2)
        self._prob = check_prob("GridMask", prob)
        self._kept, self._fill = kept, tuple(fill)
        if not 0 < kept < 1:
            raise AttributeValueError(f"GridMask: kept is {kept}; it must lie between 0 and 1")

    def __call__(self, sample: SampleType, rng: np.random.Generator) -> SampleType:
        """Returns the sample with its squares covered; its pixels must be uint8."""
        pixels = sample.pixels
        if pixels.dtype != np.uint8:
            raise DTypeError(f"GridMask: the image is {pixels.dtype}; put GridMask before Normalize")
        if rng.random() >= self._prob:
            return sample
        unit = rng.uniform(*self._unit)
        covered = unit * (1 - self._kept)
        rows, columns = ((np.arange(side) + rng.uniform(0, unit)) % unit < covered for side in sample.size)
        hidden = rows[:, None] & columns
        return sample.recoloured(
            np.where(hidden[..., None], np.array(fill_colour(self._fill, pixels), np.uint8), pixels)
        )
