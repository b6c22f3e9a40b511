"""Orders: which samples an epoch visits, and how they are cut into batches.

An order is a pure function of the epoch, so that a resumed run finds its place again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from framework.data.streams import order_rng
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, DataError


class Sampler(Protocol):
    """The order of samples in each epoch."""

    def __len__(self) -> int:
        """Return the number of samples an epoch visits."""

    def order(self, epoch: int) -> np.ndarray:
        """Return the sample indices of `epoch`, int64 of shape [len(self)]."""


class SequentialSampler:
    """Every sample once, in the dataset's order; of several processes, each has every `world.size`-th.

    Args:
        size: samples of the dataset.
        world: which process of how many this is. The parts share no sample, and together they are the whole.
    """

    def __init__(self, size: int, *, world: World = ALONE) -> None:
        self._size = size
        self._world = world

    def __len__(self) -> int:
        return len(range(self._size)[self._world.rank :: self._world.size])

    def order(self, epoch: int) -> np.ndarray:
        """Return the process's part of 0 ... size-1, int64."""
        return np.arange(self._world.rank, self._size, self._world.size, dtype=np.int64)


class ShuffledSampler:
    """Every sample once, in a random order that depends on (seed, epoch) alone.

    Args:
        size: samples of the dataset.
        seed: of the order, the same in all processes.
        world: which process of how many this is. All have equally many samples, so the first of an epoch are repeated
            at its end where they do not divide. Batches of B in each of W processes hold, together, the samples of a
            batch of B * W in one.
    """

    def __init__(self, size: int, *, seed: int, world: World = ALONE) -> None:
        self._size = size
        self._seed = seed
        self._world = world

    def __len__(self) -> int:
        return -(-self._size // self._world.size)

    def order(self, epoch: int) -> np.ndarray:
        """Return the process's part of a permutation of 0 ... size-1, int64."""
        whole = order_rng(self._seed, epoch).permutation(self._size).astype(np.int64, copy=False)
        if self._world.size == 1:
            return whole
        return np.resize(whole, len(self) * self._world.size)[self._world.rank :: self._world.size]


class BatchSampler(Protocol):
    """The sample indices of each batch of each epoch."""

    def __len__(self) -> int:
        """Return the number of batches an epoch has."""

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """Return the sample indices of one batch, int64."""


class FixedBatches:
    """Consecutive runs of `batch_size` samples of a sampler's order; the last may be short.

    Raises AttributeValueError for a batch size below 1, DataError where an epoch would have no batch.
    """

    def __init__(self, sampler: Sampler, batch_size: int, *, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise AttributeValueError(f"DataLoader: batch_size is {batch_size}; it must be 1 or more")
        if len(sampler) == 0:
            raise DataError("DataLoader: the dataset has 0 samples; check its path, split and filters")
        if drop_last and len(sampler) < batch_size:
            raise DataError(
                f"DataLoader: {len(sampler)} samples make no full batch of {batch_size} and drop_last is on; "
                "lower batch_size or set drop_last: false"
            )
        self._sampler = sampler
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._orders: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        full, rest = divmod(len(self._sampler), self._batch_size)
        return full if self._drop_last or rest == 0 else full + 1

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """Return the sample indices of one batch, int64 of shape [batch_size] or shorter at the end."""
        if epoch not in self._orders:
            self._orders = {e: o for e, o in self._orders.items() if abs(e - epoch) <= 1}
            self._orders[epoch] = self._sampler.order(epoch)
        start = batch * self._batch_size
        return self._orders[epoch][start : start + self._batch_size]
