"""What is remembered of a value during calibration, and which range it comes to.

A range is the magnitude that 127 stands for; larger values are cut to it. All methods are symmetric, so the range from
the lowest to the highest value ("min-max") is that of `abs_max`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

BINS = 4096
LEVELS = 127
CANDIDATES = 128  # ranges that mse and kl compare
SMALLEST_PART = 1 / 32  # of the largest magnitude: no range below it is tried
PERCENTILE = 0.9999


class Observer:
    """Magnitudes of one value over all batches: a histogram whose range doubles when it must, and the batches' maxima.

    Attributes:
        counts: [BINS] magnitudes in equal bins of [0, limit].
        limit: the histogram's range; 0 before the first value.
        maxima: the largest magnitude of each batch.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.limit = 0.0
        self.maxima: list[float] = []

    def add(self, x: np.ndarray) -> None:
        """Takes in one batch's values, of any shape, all finite."""
        magnitudes = np.abs(x).ravel()
        largest = float(magnitudes.max(initial=0))
        self.maxima.append(largest)
        if largest == 0:
            self.counts[0] += magnitudes.size
            return
        self._reach(largest)
        bins = np.minimum((magnitudes * np.float32(BINS / self.limit)).astype(np.int32), BINS - 1)
        self.counts += np.bincount(bins, minlength=BINS)

    def _reach(self, largest: float) -> None:
        if self.limit == 0:
            self.limit = largest
        while self.limit < largest:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(axis=1), np.zeros(BINS // 2, np.int64)])
            self.limit *= 2

    @property
    def largest(self) -> float:
        """The largest magnitude of all batches."""
        return max(self.maxima, default=0.0)

    @property
    def middles(self) -> np.ndarray:
        """[BINS] the magnitude in the middle of each bin."""
        return (np.arange(BINS) + 0.5) * (self.limit / BINS)


def abs_max(seen: Observer) -> float:
    """The largest magnitude: nothing is cut."""
    return seen.largest


def average(seen: Observer) -> float:
    """The mean of the batches' largest magnitudes."""
    return float(np.mean(seen.maxima))


def percentile(seen: Observer) -> float:
    """The magnitude that all but one in ten thousand values stay below."""
    reached = np.cumsum(seen.counts) >= PERCENTILE * seen.counts.sum()
    return min(float((np.argmax(reached) + 1) * (seen.limit / BINS)), seen.largest)


def mse(seen: Observer) -> float:
    """The range with the least squared error of rounding and cutting."""
    x, counts = seen.middles, seen.counts

    def error(limit: float) -> float:
        step = limit / LEVELS
        return float(np.sum(counts * (x - np.minimum(np.rint(x / step), LEVELS) * step) ** 2))

    return min(_candidates(seen), key=error)


def kl(seen: Observer) -> float:
    """The range whose 8-bit histogram loses least information, by Kullback-Leibler divergence (Migacz 2017)."""
    return min(_candidates(seen), key=lambda limit: _divergence(seen.counts, round(limit / seen.limit * BINS)))


def _candidates(seen: Observer) -> list[float]:
    return [float(v) for v in np.linspace(seen.largest * SMALLEST_PART, seen.largest, CANDIDATES)]


def _divergence(counts: np.ndarray, end: int) -> float:
    """Of the histogram cut at bin `end`, what lies beyond counted in its last bin, from its LEVELS + 1 levels."""
    end = min(max(end, LEVELS + 1), BINS)
    inside = counts[:end].astype(np.float64)
    true = inside.copy()
    true[-1] += counts[end:].sum()
    starts = np.arange(LEVELS + 1) * end // (LEVELS + 1)
    filled = inside > 0
    sums, places = np.add.reduceat(inside, starts), np.add.reduceat(filled.astype(np.float64), starts)
    means = np.divide(sums, places, out=np.zeros_like(sums), where=places > 0)
    levels = np.repeat(means, np.diff(np.append(starts, end))) * filled
    seen = true > 0
    p, q = true[seen] / true.sum(), levels[seen] / max(levels.sum(), 1.0)
    return float(np.sum(p * np.log(p / np.maximum(q, 1e-9))))  # an empty level under cut values: a high price


METHODS: dict[str, Callable[[Observer], float]] = {f.__name__: f for f in (abs_max, average, percentile, mse, kl)}


def range_of(seen: Observer, method: str) -> float:
    """The magnitude that 127 stands for by one of METHODS; 0 where nothing but zeros was seen."""
    return METHODS[method](seen) if seen.largest > 0 else 0.0
