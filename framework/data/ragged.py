"""Ragged batches: sequences laid end to end with offsets instead of padding, and batches bounded by their tokens.

Letters: B sequences, T tokens of the whole batch, N samples of the data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.data.collate import collate
from framework.data.streams import order_rng
from framework.errors import AttributeValueError, DataError


class RaggedCollate:
    """Makes a batch in which some keys are laid end to end: arrays [t_i, ...] become one [T, ...].

    The batch also has "offsets", int64 [B + 1]: sequence i is `values[offsets[i]:offsets[i + 1]]`. Other keys are
    stacked as `collate` does.

    Args:
        keys: what is laid end to end; all of them have the same length in a sample.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the batch; raise DataError where the ragged keys of a sample differ in length."""
        lengths = [self._length(position, sample) for position, sample in enumerate(samples)]
        batch = {key: np.concatenate([sample[key] for sample in samples]) for key in self._keys}
        batch["offsets"] = np.cumsum([0, *lengths], dtype=np.int64)
        rest = [{k: v for k, v in sample.items() if k not in self._keys} for sample in samples]
        return {**batch, **collate(rest)}

    def _length(self, position: int, sample: Mapping[str, Any]) -> int:
        lengths = {key: len(sample[key]) for key in self._keys}
        if len(set(lengths.values())) != 1:
            raise DataError(f"collate: sample {position} of the batch has lengths {lengths}; they must be equal")
        return lengths[self._keys[0]]


class TokenBatches:
    """Batches of at most `tokens` tokens, every sample once an epoch, in a number that is the same in each epoch.

    The samples lie in an order drawn from (seed, epoch) and are cut at equal shares of all tokens; so batches hold
    nearly equal numbers of tokens however long their samples are.

    Args:
        lengths: tokens of each sample, int [N].
        tokens: the bound; three times the longest sample or more, so that no batch is empty.
        seed: of the order; None keeps the data set's order.
        pool: with `pool` > 0, the samples of this many neighbouring batches are sorted by length before they are cut,
            and the batches are shuffled: a batch then holds samples of similar length.

    Raises AttributeValueError where a sample could break the bound, DataError without samples.
    """

    def __init__(self, lengths: np.ndarray, tokens: int, *, seed: int | None = None, pool: int = 0) -> None:
        self._lengths = np.maximum(np.asarray(lengths, np.int64), 1)
        if not len(self._lengths):
            raise DataError("DataLoader: the dataset has 0 samples; check its path, split and filters")
        longest = int(self._lengths.max())
        if tokens < 3 * longest:
            raise AttributeValueError(
                f"DataLoader: batches of {tokens} tokens are too small for samples of up to {longest}; "
                f"allow {3 * longest} or more, or cut the samples shorter"
            )
        if pool < 0:
            raise AttributeValueError(f"DataLoader: pool is {pool}; it must be 0 or more")
        self._total = int(self._lengths.sum())
        # A batch is an equal share of the tokens, and at most one sample more.
        self._count = -(-self._total // (tokens - longest + 1))
        self._seed = seed
        self._pool = pool
        self._cuts: dict[int, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return self._count

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """Return the sample indices of one batch, int64, 1 or more."""
        if epoch not in self._cuts:
            self._cuts = {e: c for e, c in self._cuts.items() if abs(e - epoch) <= 1}
            self._cuts[epoch] = self._cut(epoch)
        return self._cuts[epoch][batch]

    def _cut(self, epoch: int) -> list[np.ndarray]:
        order = np.arange(len(self._lengths), dtype=np.int64)
        if self._seed is None:
            return self._split(order)
        rng = order_rng(self._seed, epoch)
        rng.shuffle(order)
        if not self._pool:
            return self._split(order)
        pools = np.array_split(order, -(-self._count // self._pool))
        batches = self._split(np.concatenate([p[np.argsort(self._lengths[p], kind="stable")] for p in pools]))
        return [batches[i] for i in rng.permutation(self._count)]

    def _split(self, order: np.ndarray) -> list[np.ndarray]:
        """Cut where the running count of tokens passes each share; a sample belongs to the share it starts in."""
        starts = np.cumsum(self._lengths[order]) - self._lengths[order]
        share = starts * self._count // self._total
        places = np.searchsorted(share, np.arange(1, self._count))
        return np.split(order, places)
