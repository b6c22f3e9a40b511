"""The contracts of augmentation: Transform (one sample), BatchTransform (a batch), Augmented (a set with both).

Randomness comes only from the generator a transform is given, never from elsewhere, so that a sample depends
on (seed, epoch, index) alone, with any number of workers. Each suite says what its sample is.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from framework.errors import ConfigError, DataError

if TYPE_CHECKING:
    from suites.engine.config import Part
    from suites.engine.config.schema.rules import Whole

_DRAWS = 8  # tries to find a sample to mix with


class Transform(ABC):
    """Makes a new sample from a sample, and leaves the one it is given as it was."""

    @abstractmethod
    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """Returns the changed sample; draws from `rng` only."""

    def for_classes(self, names: Sequence[str]) -> Transform:
        """The transform for a set of these classes; by default itself. ConfigError where it names others."""
        return self

    def for_sizes(self, sizes: Callable[[], np.ndarray]) -> Transform:
        """The transform for images of these sizes; by default itself.

        `sizes` gives (H, W) of each image of the training set, int64 [S, 2], (0, 0) of one that cannot be read; it
        reads their headers when it is first called.
        """
        return self

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """The arguments of one use in a config that are sizes of its results, with their values; by default none."""
        yield from ()


def image_sizes(config: Whole) -> Iterator[tuple[str, tuple[int, int]]]:
    """Sizes (H, W) that the transforms of a config bring images to, each with its place in the config."""
    for part in config.parts():
        if isinstance(part.target, type) and issubclass(part.target, (Transform, BatchTransform)):
            for key, size in part.target.sizes_of(part):
                yield part.at(key), (size, size) if isinstance(size, int) else (size[0], size[1])


class MixingTransform(Transform):
    """A transform that needs other samples of the set, such as mixup.

    `Augmented` calls `mix` with `draw`, which gives a random other sample that went through the same earlier
    transforms.
    """

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """Refuses: outside of `Augmented`, as in evaluation or inference, there is nothing to mix with.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{type(self).__name__}: mixes samples of a training set, so it stands among the transforms of "
            "data.train only; take it out of the others"
        )

    @abstractmethod
    def mix(self, sample: Any, rng: np.random.Generator, draw: Callable[[], Any]) -> Any:
        """Returns the mixture of `sample` with as many drawn samples as it takes."""


class BatchTransform(ABC):
    """Changes all samples of a batch alike, such as to one random size."""

    @abstractmethod
    def __call__(self, samples: list[Any], rng: np.random.Generator) -> list[Any]:
        """Returns the changed samples; draws from `rng` only."""

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """The arguments of one use in a config that are sizes of its results, with their values; by default none."""
        yield from ()


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
        names = getattr(dataset, "class_names", ())
        self._transforms = tuple(transform.for_classes(names) for transform in transforms)

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
