"""What a dataset is: something with a length that gives the sample at an index.

Keep annotations in a few flat NumPy arrays: the loader places those in memory that all workers share, so
that memory does not grow with the number of workers.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Dataset(Protocol):
    """Samples by index; it must be picklable, and is read-only once workers run."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, index: int) -> Any:
        """Return sample `index`, usually a dict of arrays; the same index always gives the same sample."""


@runtime_checkable
class RandomDataset(Protocol):
    """A dataset that draws random numbers itself, such as mixup of two samples or scenes made on the fly.

    The loader then calls `sample` in place of `dataset[index]`.
    """

    def __len__(self) -> int:
        """Return the number of samples."""

    def sample(self, index: int, rng: np.random.Generator) -> Any:
        """Return sample `index`, drawing from `rng` only."""


@runtime_checkable
class BatchDataset(Protocol):
    """A dataset whose rows lie in arrays, such as a log in memory: it gives a whole batch at once.

    The loader then calls `batch` in place of `dataset[index]` for each sample, and neither transforms nor collates.
    """

    def __len__(self) -> int:
        """Return the number of samples."""

    def batch(self, indices: np.ndarray) -> Any:
        """Return the batch of the samples at these indices, int64 [N], in this order."""


def describe(dataset: Any, index: int) -> str:
    """Name sample `index` for a message: its index, and `dataset.name_of(index)` where that exists."""
    name_of = getattr(dataset, "name_of", None)
    if name_of is None:
        return f"sample {index}"
    try:
        return f"sample {index} ({name_of(index)})"
    except Exception:  # naming must not hide the error that is being reported
        return f"sample {index}"
