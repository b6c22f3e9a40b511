"""Random streams of data loading: one independent generator a sample, a batch and an epoch's order.

Philox is counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the key
holds the seed and the kind of stream, the upper counter words hold who is drawing. So a stream depends on
(seed, epoch, index) alone, whichever process draws from it and in whatever order.
"""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1
_SAMPLE, _BATCH, _ORDER, _WINDOW = 1, 2, 3, 4


def sample_rng(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Return the generator for the transforms of sample `index` of the dataset in `epoch`."""
    return _stream(_SAMPLE, seed, epoch, index)


def batch_rng(seed: int, epoch: int, batch: int) -> np.random.Generator:
    """Return the generator for the batch transforms of the `batch`-th batch of `epoch`."""
    return _stream(_BATCH, seed, epoch, batch)


def order_rng(seed: int, epoch: int) -> np.random.Generator:
    """Return the generator that shuffles the samples of `epoch`."""
    return _stream(_ORDER, seed, epoch, 0)


def window_rng(seed: int, epoch: int, window: int) -> np.random.Generator:
    """Return the generator that shuffles the rows of the `window`-th window of a log in `epoch`."""
    return _stream(_WINDOW, seed, epoch, window)


def _stream(kind: int, seed: int, epoch: int, item: int) -> np.random.Generator:
    key = np.array([seed & _MASK, kind], dtype=np.uint64)
    counter = np.array([0, 0, item & _MASK, epoch & _MASK], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))
