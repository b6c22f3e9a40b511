"""The contracts of augmentation: Transform (one sample), BatchTransform (a batch), Augmented (a set with both).

Randomness comes only from the generator a transform is given, never from elsewhere, so that a sample depends
on (seed, epoch, index) alone, with any number of workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.datasets.base import DetectionDataset
from suites.detection.sample import Sample
from suites.engine.registry import register_role

INTERPOLATIONS = {
    "nearest": cv2.INTER_NEAREST,
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
    "lanczos": cv2.INTER_LANCZOS4,
}
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Transform(ABC):
    """Makes a new sample from a sample, and leaves the one it is given as it was."""

    @abstractmethod
    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the changed sample; draws from `rng` only."""


class MixingTransform(Transform):
    """A transform that needs other samples of the set, such as mixup.

    `Augmented` calls `mix` with `draw`, which gives a random other sample that went through the same earlier
    transforms. Called by itself, such a transform changes nothing, as there is nothing to mix with.
    """

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample unchanged."""
        return sample

    @abstractmethod
    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the mixture of `sample` with as many drawn samples as it takes."""


class BatchTransform(ABC):
    """Changes all samples of a batch alike, such as to one random size."""

    @abstractmethod
    def __call__(self, samples: list[Sample], rng: np.random.Generator) -> list[Sample]:
        """Returns the changed samples; draws from `rng` only."""


register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")


class Augmented:
    """A detection set with its transforms: what the data loader draws from.

    `sample(index, rng)` loads image `index` and applies the transforms in order. A `MixingTransform` at place
    p may draw others: each is another image, chosen by `rng`, through transforms 0 to p - 1.

    Args:
        dataset: The images and boxes.
        transforms: Applied in this order.
    """

    def __init__(self, dataset: DetectionDataset, transforms: Sequence[Transform]) -> None:
        self.dataset = dataset
        self._transforms = tuple(transforms)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        """Sample `index` with random choices that depend on the index alone: for evaluation and pictures."""
        return self.sample(index, np.random.default_rng(index))

    def sample(self, index: int, rng: np.random.Generator) -> Sample:
        """Sample `index` through all transforms."""
        return self._through(index, rng, len(self._transforms))

    def name_of(self, index: int) -> str:
        """The file, or other name, of image `index` for messages."""
        return self.dataset.name_of(index)

    def _through(self, index: int, rng: np.random.Generator, count: int) -> Sample:
        sample = self.dataset[index]
        for place, transform in enumerate(self._transforms[:count]):
            if isinstance(transform, MixingTransform):

                def draw(before: int = place) -> Sample:
                    return self._through(int(rng.integers(len(self.dataset))), rng, before)

                sample = transform.mix(sample, rng, draw)
            else:
                sample = transform(sample, rng)
        return sample


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
