"""Augmentations that hide parts of an image, or put parts of several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register
from suites.segmentation.sample import IGNORE, Sample
from suites.segmentation.transforms.roles import BatchTransform, Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range, fill_colour


@register("transform")
class RandomCutOut(Transform):
    """Hides random rectangles (DeVries and Taylor 2017, arXiv:1708.04552); nothing is learnt where they lie.

    Args:
        prob: How often.
        count: Largest number of rectangles.
        share: Range of each side, as a share of the image's.
        fill: RGB of the rectangles, in [0, 1].
    """

    def __init__(
        self,
        prob: float = 0.5,
        count: int = 3,
        share: Sequence[float] = (0.05, 0.2),
        fill: Sequence[float] = IMAGENET_MEAN,
    ) -> None:
        self._prob = check_prob("RandomCutOut", prob)
        self._share = check_range("RandomCutOut", "share", share, 0)
        if count < 1 or self._share[1] > 1:
            raise AttributeValueError(
                f"RandomCutOut: count is {count} and share {list(share)}; count is 1 or more, share at most 1"
            )
        self._count, self._fill = count, tuple(fill)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with holes, or not."""
        if rng.random() >= self._prob:
            return sample
        image, labels = sample.image.copy(), sample.labels.copy()
        for _ in range(int(rng.integers(1, self._count + 1))):
            height, width = (max(1, round(n * rng.uniform(*self._share))) for n in sample.size)
            top, left = int(rng.integers(sample.size[0] - height + 1)), int(rng.integers(sample.size[1] - width + 1))
            image[top : top + height, left : left + width] = fill_colour(self._fill, image)
            labels[top : top + height, left : left + width] = IGNORE
        return replace(sample, image=image, labels=labels)


class _OfOneSize(BatchTransform):
    """A batch transform of images that all have one size.

    Args:
        prob: How often, of each sample.
    """

    def __init__(self, prob: float = 0.5) -> None:
        self._prob = check_prob(type(self).__name__, prob)

    def __call__(self, samples: list[Sample], rng: np.random.Generator) -> list[Sample]:
        """Returns the batch, some samples mixed with others of it."""
        sizes = {sample.size for sample in samples}
        if len(sizes) > 1:
            raise DataError(
                f"{type(self).__name__}: the batch has images of {len(sizes)} sizes; end the transforms with "
                "RandomCrop or Resize"
            )
        others = rng.permutation(len(samples))
        return [
            self.mixed(samples, at, int(other), rng) if rng.random() < self._prob else samples[at]
            for at, other in enumerate(others)
        ]

    def mixed(self, samples: Sequence[Sample], at: int, other: int, rng: np.random.Generator) -> Sample:
        """Sample `at` with something of sample `other`, or of more."""
        raise NotImplementedError


@register("batch_transform")
class ClassMix(_OfOneSize):
    """Pastes half of the classes of another image of the batch (Olsson et al. 2021, arXiv:2007.07936).

    Args:
        prob: How often, of each sample.
    """

    def mixed(self, samples: Sequence[Sample], at: int, other: int, rng: np.random.Generator) -> Sample:
        """Sample `at` under half of the classes of `other`."""
        onto, source = samples[at], samples[other]
        classes = np.unique(source.labels[source.labels != IGNORE])
        chosen = rng.choice(classes, (len(classes) + 1) // 2, replace=False)
        return _pasted(onto, source, np.isin(source.labels, chosen))


@register("batch_transform")
class CutMix(_OfOneSize):
    """Pastes a rectangle of another image of the batch (French et al. 2020, arXiv:1906.01916).

    Args:
        prob: How often, of each sample.
        area: Range of the rectangle's area, as a share of the image's.
    """

    def __init__(self, prob: float = 0.5, area: Sequence[float] = (0.1, 0.5)) -> None:
        super().__init__(prob)
        self._area = check_range("CutMix", "area", area, 0)
        if self._area[1] > 1:
            raise AttributeValueError(f"CutMix: area is {list(area)}; a part is at most the image, 1")

    def mixed(self, samples: Sequence[Sample], at: int, other: int, rng: np.random.Generator) -> Sample:
        """Sample `at` under a rectangle of `other`."""
        size = samples[at].size
        area = rng.uniform(*self._area)
        tall = rng.uniform(area, 1)  # as a share of the height; the width makes up for it
        height, width = max(1, round(size[0] * tall)), max(1, round(size[1] * area / max(tall, 1e-9)))
        top, left = int(rng.integers(size[0] - height + 1)), int(rng.integers(size[1] - width + 1))
        part = np.zeros(size, bool)
        part[top : top + height, left : left + width] = True
        return _pasted(samples[at], samples[other], part)


@register("batch_transform")
class Mosaic(_OfOneSize):
    """Puts four images of the batch around a random point, each at half its size (Bochkovskiy et al. 2020).

    Args:
        prob: How often, of each sample.
    """

    def mixed(self, samples: Sequence[Sample], at: int, other: int, rng: np.random.Generator) -> Sample:
        """Four images, `at` and `other` among them, the point between a quarter and three quarters of each side."""
        height, width = samples[at].size
        y, x = (round(n * rng.uniform(0.25, 0.75)) for n in (height, width))
        chosen = [at, other, *rng.integers(len(samples), size=2).tolist()]
        image, labels = np.empty_like(samples[at].image), np.empty_like(samples[at].labels)
        corners = [(0, y, 0, x), (0, y, x, width), (y, height, 0, x), (y, height, x, width)]
        for number, (top, bottom, left, right) in zip(chosen, corners, strict=True):
            tall, wide = bottom - top, right - left
            factor = max(0.5, tall / height, wide / width)
            size = max(tall, round(height * factor)), max(wide, round(width * factor))
            small = samples[number].resized(size, cv2.INTER_LINEAR)
            from_y, from_x = int(rng.integers(size[0] - tall + 1)), int(rng.integers(size[1] - wide + 1))
            part = small.cropped((tall, wide), from_y, from_x)
            image[top:bottom, left:right], labels[top:bottom, left:right] = part.image, part.labels
        return replace(samples[at], image=image, labels=labels)


def _pasted(onto: Sample, source: Sample, where: np.ndarray) -> Sample:
    """`onto` with the pixels and labels of `source` at bool [H, W]."""
    return replace(
        onto,
        image=np.where(where[..., None], source.image, onto.image),
        labels=np.where(where, source.labels, onto.labels),
    )
