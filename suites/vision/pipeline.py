"""The contracts of augmentation: Transform (one sample), BatchTransform (a batch), Augmented (a set with both).

Randomness comes only from the generator a transform is given, never from elsewhere, so that a sample depends
on (seed, epoch, index) alone, with any number of workers. Each suite says what its sample is.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from framework.errors import DataError

_DRAWS = 8  # tries to find a sample to mix with


class Transform(ABC):
    """Makes a new sample from a sample, and leaves the one it is given as it was."""

    @abstractmethod
    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """Returns the changed sample; draws from `rng` only."""


class MixingTransform(Transform):
    """A transform that needs other samples of the set, such as mixup.

    `Augmented` calls `mix` with `draw`, which gives a random other sample that went through the same earlier
    transforms. Called by itself, such a transform changes nothing, as there is nothing to mix with.
    """

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """Returns the sample unchanged."""
        return sample

    @abstractmethod
    def mix(self, sample: Any, rng: np.random.Generator, draw: Callable[[], Any]) -> Any:
        """Returns the mixture of `sample` with as many drawn samples as it takes."""


class BatchTransform(ABC):
    """Changes all samples of a batch alike, such as to one random size."""

    @abstractmethod
    def __call__(self, samples: list[Any], rng: np.random.Generator) -> list[Any]:
        """Returns the changed samples; draws from `rng` only."""


class Samples(Protocol):
    """What `Augmented` asks of a data set."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...

    def name_of(self, index: int) -> str:
        """The file, or other name, of sample `index` for messages."""
        ...


class Augmented:
    """A data set with its transforms: what the data loader draws from.

    `sample(index, rng)` loads sample `index` and applies the transforms in order. A `MixingTransform` at place
    p may draw others: each is another sample, chosen by `rng`, through transforms 0 to p - 1.

    Args:
        dataset: The samples.
        transforms: Applied in this order.
    """

    def __init__(self, dataset: Samples, transforms: Sequence[Transform]) -> None:
        self.dataset = dataset
        self._transforms = tuple(transforms)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        """Sample `index` with random choices that depend on the index alone: for evaluation and pictures."""
        return self.sample(index, np.random.default_rng(index))

    def sample(self, index: int, rng: np.random.Generator) -> Any:
        """Sample `index` through all transforms."""
        return self._through(index, rng, len(self._transforms))

    def name_of(self, index: int) -> str:
        """The file, or other name, of sample `index` for messages."""
        return self.dataset.name_of(index)

    def _load(self, index: int, rng: np.random.Generator) -> Any:
        return self.dataset[index]

    def _through(self, index: int, rng: np.random.Generator, count: int) -> Any:
        sample = self._load(index, rng)
        for place, transform in enumerate(self._transforms[:count]):
            if isinstance(transform, MixingTransform):

                def draw(before: int = place) -> Any:
                    return self._another(rng, before)

                sample = transform.mix(sample, rng, draw)
            else:
                sample = transform(sample, rng)
        return sample

    def _another(self, rng: np.random.Generator, count: int) -> Any:
        """A random sample through `count` transforms; one that cannot be used is drawn again."""
        for _ in range(_DRAWS - 1):
            with contextlib.suppress(DataError, OSError):
                return self._through(int(rng.integers(len(self.dataset))), rng, count)
        return self._through(int(rng.integers(len(self.dataset))), rng, count)
