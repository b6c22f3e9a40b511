"""What is remembered of a value during calibration, and which range it comes to.

`range_of` is symmetric: the magnitude that 127 stands for; larger values are cut to it. `bounds_of` is not: from which
value to which value 8 bits reach; by `abs_max` that is from the lowest to the highest ("min-max").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

BINS = 8192
LEVELS = 127
CANDIDATES = 128  # ranges that mse and kl compare
SMALLEST_PART = 1 / 32  # of the largest magnitude: no range below it is tried
PERCENTILE = 0.9999
FARTHEST = 4.0  # times the squared error of the whole range: no range that kl takes loses more


class Observer:
    """One value over all batches: a histogram whose range doubles when it must, the batches' extremes, and means.

    The histogram depends on the values alone: not on their order, nor on how they lie in batches.

    Attributes:
        zeros: how many values are exactly 0, which any range holds.
        sides: [2, BINS] how many values below 0, and others, have a magnitude in each of equal bins of [0, limit).
        limit: the histogram's range, the least power of two above all magnitudes; 0 before the first value.
        maxima: the largest magnitude of each batch.
        lows, highs: the lowest and the highest value of each batch, 0 included.
        totals: [C] sums along all axes but the last; of `rows` rows.
    """

    def __init__(self) -> None:
        self.sides = np.zeros((2, BINS), np.int64)
        self.zeros = 0
        self.limit = 0.0
        self.maxima: list[float] = []
        self.lows: list[float] = []
        self.highs: list[float] = []
        self.totals: np.ndarray | float = 0.0
        self.rows = 0

    @property
    def counts(self) -> np.ndarray:
        """[BINS] magnitudes in equal bins of [0, limit); zeros are left out."""
        return self.sides_without_zeros.sum(axis=0)

    @property
    def sides_without_zeros(self) -> np.ndarray:
        """[2, BINS] `sides` of values that are not 0. Counted, zeros would favour the narrowest range."""
        sides = self.sides.copy()
        sides[1, 0] -= self.zeros
        return sides

    @property
    def means(self) -> np.ndarray:
        """[C] the mean of each channel, the last axis."""
        return np.asarray(self.totals / max(self.rows, 1))

    def add(self, x: np.ndarray) -> None:
        """Takes in one batch's values, of any shape, all finite."""
        flat = x.ravel()
        self.zeros += flat.size - int(np.count_nonzero(flat))
        low, high = float(flat.min(initial=0)), float(flat.max(initial=0))
        self.lows.append(low)
        self.highs.append(high)
        self.maxima.append(largest := max(-low, high))
        if x.ndim:
            self.totals = self.totals + x.reshape(-1, x.shape[-1]).sum(axis=0, dtype=np.float64)
            self.rows += x.size // max(x.shape[-1], 1)
        if largest == 0:
            self.sides[1, 0] += flat.size
            return
        self._reach(largest)
        magnitudes = np.abs(flat)
        if BINS / self.limit > float(np.finfo(np.float32).max):
            magnitudes = magnitudes.astype(np.float64)
        bins = np.minimum((magnitudes * (BINS / self.limit)).astype(np.int32), BINS - 1)
        bins[flat >= 0] += BINS
        self.sides += np.bincount(bins, minlength=2 * BINS).reshape(2, BINS)

    def _reach(self, largest: float) -> None:
        limit = math.ldexp(1.0, math.frexp(largest)[1])
        if self.limit == 0:
            self.limit = limit
        while self.limit < limit:
            merged = self.sides.reshape(2, -1, 2).sum(axis=2)
            self.sides = np.concatenate([merged, np.zeros_like(merged)], axis=1)
            self.limit *= 2

    @property
    def largest(self) -> float:
        """The largest magnitude of all batches."""
        return max(self.maxima, default=0.0)

    @property
    def middles(self) -> np.ndarray:
        """[BINS] the magnitude in the middle of each bin."""
        return (np.arange(BINS) + 0.5) * (self.limit / BINS)


class Channels:
    """The channels of one value, its last axis, over all batches.

    Attributes:
        lows, highs: [C] the lowest and the highest value of each; of no channels where nothing was seen.
    """

    def __init__(self) -> None:
        self.lows = self.highs = np.zeros(0)
        self._totals = self._squares = np.zeros(0)
        self._rows = 0

    @classmethod
    def joined(cls, parts: Iterable[Channels]) -> Channels:
        """What one would have seen of all that these saw."""
        whole = cls()
        for part in parts:
            if part._rows:
                whole._take((part._totals, part._squares), (part.lows, part.highs), part._rows)
        return whole

    def add(self, x: np.ndarray) -> None:
        """Takes in one batch's values [..., C], all finite."""
        rows = x.reshape(-1, x.shape[-1])
        if not len(rows):
            return
        sums = rows.sum(axis=0, dtype=np.float64), np.einsum("rc,rc->c", rows, rows, dtype=np.float64)
        ends = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        self._take(sums, ends, len(rows))

    def _take(self, sums: tuple[np.ndarray, np.ndarray], ends: tuple[np.ndarray, np.ndarray], rows: int) -> None:
        if self._rows:
            sums = self._totals + sums[0], self._squares + sums[1]
            ends = np.minimum(self.lows, ends[0]), np.maximum(self.highs, ends[1])
        self._totals, self._squares = sums
        self.lows, self.highs = ends
        self._rows += rows

    @property
    def largest(self) -> np.ndarray:
        """[C] the largest magnitude of each."""
        return np.maximum(-self.lows, self.highs)

    @property
    def means(self) -> np.ndarray:
        """[C] the mean of each."""
        return np.asarray(self._totals / max(self._rows, 1))

    @property
    def deviations(self) -> np.ndarray:
        """[C] the standard deviation of each."""
        return np.sqrt(np.maximum(self._squares / max(self._rows, 1) - self.means**2, 0))


def abs_max(seen: Observer) -> float:
    """The largest magnitude: nothing is cut."""
    return seen.largest


def average(seen: Observer) -> float:
    """The mean of the batches' largest magnitudes."""
    return _mean(seen.maxima)


def percentile(seen: Observer) -> float:
    """The magnitude that all but one in ten thousand values stay below, zeros left out."""
    reached = np.cumsum(seen.counts) >= PERCENTILE * seen.counts.sum()
    return min(float((np.argmax(reached) + 1) * (seen.limit / BINS)), seen.largest)


def mse(seen: Observer) -> float:
    """The range with the least squared error of rounding and cutting."""
    return min(_candidates(seen), key=lambda limit: _error(seen, limit))


def kl(seen: Observer) -> float:
    """The range whose 8-bit histogram loses least information, by Kullback-Leibler divergence (Migacz 2017).

    Of few or sparse values the histogram says little, and cutting the others seems to cost nothing. So only ranges
    count whose squared error is at most FARTHEST times that of the whole range.
    """
    counts, most = seen.counts, FARTHEST * _error(seen, seen.largest)
    near = [limit for limit in _candidates(seen) if _error(seen, limit) <= most]
    return min(near, key=lambda limit: _divergence(counts, _bins(seen, limit)))


def _error(seen: Observer, limit: float) -> float:
    """Of rounding and cutting to 255 levels, squared and added up."""
    x, step = seen.middles, limit / LEVELS
    return float(np.sum(seen.counts * (x - np.minimum(np.rint(x / step), LEVELS) * step) ** 2))


def _bins(seen: Observer, limit: float) -> int:
    """How many bins hold the magnitudes up to `limit`."""
    return min(int(limit / seen.limit * BINS) + 1, BINS)


def _mean(values: Sequence[float]) -> float:
    """The same in any order."""
    return math.fsum(values) / len(values)


def _candidates(seen: Observer) -> list[float]:
    return [float(v) for v in np.linspace(seen.largest * SMALLEST_PART, seen.largest, CANDIDATES)]


def _divergence(counts: np.ndarray, end: int) -> float:
    """Of the histogram cut at bin `end`, what lies beyond counted in its last bin, from its LEVELS + 1 levels."""
    end = min(max(end, LEVELS + 1), BINS)
    return _divergence_of(counts[:end], counts[:end], counts[end:], LEVELS + 1)


def _divergence_of(true: np.ndarray, inside: np.ndarray, beyond: np.ndarray, count: int) -> float:
    """Of `true`, with `beyond` counted in its last bin, from what `count` levels make of `inside`."""
    true, inside = true.astype(np.float64), inside.astype(np.float64)
    true[-1] += beyond.sum()
    end = len(inside)
    if end <= count:
        return float("inf") if true.sum() > inside.sum() else 0.0
    starts = np.arange(count) * end // count
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


def bounds_of(seen: Observer, method: str) -> tuple[float, float]:
    """From which value to which value 8 bits reach by one of METHODS, 0 included; (0, 0) where nothing else was seen.

    `percentile` cuts both sides; `mse` and `kl` cut both to the same share of what was seen.
    """
    low, high = min(seen.lows, default=0.0), max(seen.highs, default=0.0)
    if low == high or method == "abs_max":
        return low, high
    if method == "average":
        return _mean(seen.lows), _mean(seen.highs)
    if method == "percentile":
        return max(low, -_reached(seen, 0)), min(high, _reached(seen, 1))
    shares = [(low * share, high * share) for share in np.linspace(SMALLEST_PART, 1, CANDIDATES).tolist()]
    if method == "kl":
        most = FARTHEST * _signed_error(seen, low, high)
        near = [(a, b) for a, b in shares if _signed_error(seen, a, b) <= most]
        return min(near, key=lambda ends: _signed_divergence(seen, *ends))
    return min(shares, key=lambda ends: _signed_error(seen, *ends))


def _reached(seen: Observer, side: int) -> float:
    """The magnitude that all but one in ten thousand of all values but zeros stay below on one side of 0."""
    sides = seen.sides_without_zeros
    beyond = np.cumsum(sides[side][::-1])[::-1]  # values in this bin or a later one
    kept = np.flatnonzero(beyond > (1 - PERCENTILE) * sides.sum())
    return float((kept[-1] + 1) * (seen.limit / BINS)) if kept.size else 0.0


def _signed_error(seen: Observer, low: float, high: float) -> float:
    """Of rounding and cutting to 256 levels."""
    step = (high - low) / 255
    zero = np.rint(-low / step)
    error = 0.0
    for sign, counts in zip((-1, 1), seen.sides, strict=True):
        x = sign * seen.middles
        level = np.clip(np.rint(x / step) + zero, 0, 255)
        error += float(np.sum(counts * (x - (level - zero) * step) ** 2))
    return error


def _signed_divergence(seen: Observer, low: float, high: float) -> float:
    sides = seen.sides_without_zeros
    line = np.concatenate([sides[0][::-1], sides[1]])
    begin = BINS - (_bins(seen, -low) if low < 0 else 0)
    end = BINS + (_bins(seen, high) if high > 0 else 0)
    inside = line[begin:end].copy()
    inside[0] += line[:begin].sum()  # what is cut lies at the ends
    return _divergence_of(inside, line[begin:end], np.array([line[end:].sum()]), 256)
