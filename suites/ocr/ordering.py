"""Batches of lines of like length: a batch is as wide as its widest line, so little of it is empty."""

from __future__ import annotations

import numpy as np

from framework.data.sampler import FixedBatches, ShuffledSampler
from framework.data.streams import order_rng
from framework.errors import AttributeValueError


class LikeLengths:
    """Batches of a shuffled order in which the samples of neighbouring batches are sorted by length.

    What is left at the end of an order is left out of an epoch, unless there is no more than that.

    Args:
        lengths: of the samples, int [S].
        batch_size: samples of a batch.
        pool: batches that are sorted together, and shuffled again.
        seed: of both orders.

    Raises AttributeValueError for a pool below 1, else as `FixedBatches`.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, pool: int, seed: int) -> None:
        if pool < 1:
            raise AttributeValueError(f"data.train.pool is {pool}; it must be 0 or more")
        self._whole = ShuffledSampler(len(lengths), seed=seed)
        self._count = len(FixedBatches(self._whole, batch_size, drop_last=len(lengths) >= batch_size))
        self._lengths, self._batch_size, self._pool, self._seed = lengths, batch_size, pool, seed
        self._made: tuple[int, list[np.ndarray]] | None = None

    def __len__(self) -> int:
        return self._count

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """Return the samples of one batch, int64 [batch_size], fewer of a set that is smaller."""
        if self._made is None or self._made[0] != epoch:
            self._made = epoch, self._batches(epoch)
        return self._made[1][batch]

    def _batches(self, epoch: int) -> list[np.ndarray]:
        order = self._whole.order(epoch)[: self._count * self._batch_size]
        size = self._pool * self._batch_size
        pools = [order[start : start + size] for start in range(0, len(order), size)]
        order = np.concatenate([one[np.argsort(self._lengths[one], kind="stable")] for one in pools])
        batches = np.array_split(order, self._count)
        return [batches[at] for at in order_rng(self._seed + 1, epoch).permutation(self._count)]
