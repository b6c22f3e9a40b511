"""Augmentations that move pixels: image and label map go together, and what comes from nowhere is ignored."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.engine.registry import register
from suites.segmentation.sample import IGNORE, Sample
from suites.segmentation.transforms.roles import Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range, pair
from suites.vision.sample import scaled_size

_MULTIPLE = 32  # of crops' sides: the largest stride of networks
_log = logging.getLogger(__name__)


@register("transform")
class RandomScale(Transform):
    """Scales the image by a random factor.

    Args:
        low, high: Limits of the factor.
        step: Only low, low + step, ... are drawn; 0 draws any number between.
    """

    def __init__(self, low: float = 0.5, high: float = 2.0, step: float = 0.0) -> None:
        self._range = check_range("RandomScale", "low and high", (low, high), 0.01)
        if step < 0:
            raise AttributeValueError(f"RandomScale: step is {step}; it must be 0 or more")
        self._step = step

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the scaled sample."""
        low, high = self._range
        if self._step:
            factor = low + self._step * int(rng.integers(int((high - low) / self._step + 1e-9) + 1))
        else:
            factor = rng.uniform(low, high)
        return sample.resized(scaled_size(sample.size, factor), cv2.INTER_LINEAR)


@register("transform")
class RandomCrop(Transform):
    """Cuts out a part of a fixed size at a random place; a smaller image gets an ignored border first.

    Args:
        size: Side of the square, or [height, width], in pixels.
        max_share: A crop in which one class has more than this share of the labelled pixels is drawn again, up to
            ten times (mmsegmentation's `cat_max_ratio`); 1 takes any.
        fill: RGB of the border, in [0, 1]; the mean colour, which normalises to 0.
        shrink: Where images are smaller than `size`, crops are as large as the middle one of them (median of height and
            of width, rounded up to 32). A crop that is mostly border teaches little, and its batch norms count the
            border, which evaluation does not have.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        max_share: float = 1.0,
        fill: Sequence[float] = IMAGENET_MEAN,
        shrink: bool = False,
    ) -> None:
        self._size, self._shrink = pair(size, "RandomCrop"), shrink
        if not 0 < max_share <= 1:
            raise AttributeValueError(f"RandomCrop: max_share is {max_share}; it must be above 0 and at most 1")
        self._max_share, self._fill = max_share, tuple(fill)

    def for_sizes(self, sizes: Callable[[], np.ndarray]) -> RandomCrop:
        """The transform with crops that are no larger than the images, where it shrinks."""
        known = sizes() if self._shrink else np.zeros((0, 2), np.int64)
        known = known[known.all(axis=1)]
        if not len(known):
            return self
        middle = np.ceil(np.median(known, axis=0) / _MULTIPLE).astype(int) * _MULTIPLE
        size = int(min(self._size[0], middle[0])), int(min(self._size[1], middle[1]))
        if size == self._size:
            return self
        _log.info("training: crops are %d x %d pixels and not %d x %d, as images are smaller", *size, *self._size)
        return RandomCrop(size, self._max_share, self._fill)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the crop."""
        height, width = (max(a, b) for a, b in zip(sample.size, self._size, strict=True))
        free = height - sample.size[0], width - sample.size[1]
        sample = sample.padded((height, width), free[0] // 2, free[1] // 2, self._fill)
        for _ in range(10 if self._max_share < 1 else 1):
            top = int(rng.integers(height - self._size[0] + 1))
            left = int(rng.integers(width - self._size[1] + 1))
            labels = sample.labels[top : top + self._size[0], left : left + self._size[1]]
            if self._max_share == 1 or largest_share(labels) <= self._max_share:
                break
        return sample.cropped(self._size, top, left)


@register("transform")
class RandomResizeKeepRatio(Transform):
    """Scales so that the long side gets a random length (PaddleSeg's `ResizeRangeScaling`).

    Args:
        low, high: Limits of the long side, in pixels.
    """

    def __init__(self, low: int, high: int) -> None:
        self._range = check_range("RandomResizeKeepRatio", "low and high", (low, high), 1)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the scaled sample."""
        long = int(rng.integers(int(self._range[0]), int(self._range[1]) + 1))
        return sample.resized(scaled_size(sample.size, long / max(sample.size)), cv2.INTER_LINEAR)


@register("transform")
class LimitLong(Transform):
    """Scales down what has a longer side than `size`; smaller images stay as they are.

    Args:
        size: The most pixels of the long side.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise AttributeValueError(f"LimitLong: size is {size}; it must be at least 1")
        self._size = size

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, scaled down or not."""
        factor = self._size / max(sample.size)
        return sample if factor >= 1 else sample.scaled(scaled_size(sample.size, factor))


@register("transform")
class RandomResizedCrop(Transform):
    """Cuts out a part of random area and shape and stretches it to a fixed size (PaddleSeg's `RandomScaleAspect`).

    Args:
        size: Side of the square, or [height, width], in pixels.
        area: Range of the part's area, as a share of the image's.
        ratio: Range of the part's height over its width, relative to the image's.
    """

    def __init__(
        self, size: int | Sequence[int], area: Sequence[float] = (0.25, 1.0), ratio: Sequence[float] = (0.5, 2.0)
    ) -> None:
        self._size = pair(size, "RandomResizedCrop")
        self._area = check_range("RandomResizedCrop", "area", area, 1e-4)
        self._ratio = check_range("RandomResizedCrop", "ratio", ratio, 1e-2)
        if self._area[1] > 1:
            raise AttributeValueError(f"RandomResizedCrop: area is {list(area)}; a part is at most the image, 1")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the part at the size."""
        side = math.sqrt(rng.uniform(*self._area))
        stretch = math.sqrt(math.exp(rng.uniform(*np.log(self._ratio))))
        shares = min(1.0, side * stretch), min(1.0, side / stretch)
        height, width = (max(1, round(n * share)) for n, share in zip(sample.size, shares, strict=True))
        top = int(rng.integers(sample.size[0] - height + 1))
        left = int(rng.integers(sample.size[1] - width + 1))
        return sample.cropped((height, width), top, left).resized(self._size, cv2.INTER_LINEAR)


@register("transform")
class RandomQuarterTurn(Transform):
    """Turns by 0, 90, 180 or 270 degrees, each as often: for pictures from above, and of tissue. For training only.

    Args:
        prob: How often it draws at all.
    """

    def __init__(self, prob: float = 1.0) -> None:
        self._prob = check_prob("RandomQuarterTurn", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the turned sample; height and width change places at 90 and 270 degrees."""
        return sample.turned(int(rng.integers(4))) if rng.random() < self._prob else sample


def largest_share(labels: np.ndarray) -> float:
    """Share of the most frequent class among the pixels that are not ignored; 1 where all are."""
    counts = np.bincount(labels.reshape(-1), minlength=256)
    counts[IGNORE] = 0
    return float(counts.max() / counts.sum()) if counts.any() else 1.0
