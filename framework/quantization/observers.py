"""What is remembered of a value during calibration, and which range it comes to.

`range_of` is symmetric: the magnitude that 127 stands for; larger values are cut to it. `bounds_of` is not: from which
value to which value 8 bits reach; by `abs_max` that is from the lowest to the highest ("min-max").
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
    """One value over all batches: a histogram whose range doubles when it must, the batches' extremes, and means.

    Attributes:
        zeros: how many values are exactly 0, which 8 bits always hold.
        sides: [2, BINS] how many values below 0, and others, have a magnitude in each of equal bins of [0, limit].
        limit: the histogram's range; 0 before the first value.
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
        """[BINS] magnitudes in equal bins of [0, limit]."""
        return self.sides.sum(axis=0)

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
        if self.limit == 0:
            self.limit = largest
        while self.limit < largest:
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

    def add(self, x: np.ndarray) -> None:
        """Takes in one batch's values [..., C], all finite."""
        rows = x.reshape(-1, x.shape[-1])
        if not len(rows):
            return
        sums = rows.sum(axis=0, dtype=np.float64), np.einsum("rc,rc->c", rows, rows, dtype=np.float64)
        ends = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        if self._rows:
            sums = self._totals + sums[0], self._squares + sums[1]
            ends = np.minimum(self.lows, ends[0]), np.maximum(self.highs, ends[1])
        self._totals, self._squares = sums
        self.lows, self.highs = ends
        self._rows += len(rows)

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
        return float(np.mean(seen.lows)), float(np.mean(seen.highs))
    if method == "percentile":
        return max(low, -_reached(seen, 0)), min(high, _reached(seen, 1))
    if method == "kl":
        return _shares(low, high, lambda a, b: _signed_divergence(seen, a, b))
    return _shares(low, high, lambda a, b: _signed_error(seen, a, b))


def _reached(seen: Observer, side: int) -> float:
    """The magnitude that all but one in ten thousand of all values stay below on one side of 0."""
    beyond = np.cumsum(seen.sides[side][::-1])[::-1]  # values in this bin or a later one
    kept = np.flatnonzero(beyond > (1 - PERCENTILE) * seen.sides.sum())
    return float((kept[-1] + 1) * (seen.limit / BINS)) if kept.size else 0.0


def _shares(low: float, high: float, price: Callable[[float, float], float]) -> tuple[float, float]:
    shares = [float(v) for v in np.linspace(SMALLEST_PART, 1, CANDIDATES)]
    best = min(shares, key=lambda share: price(low * share, high * share))
    return low * best, high * best


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
    width = seen.limit / BINS
    line = np.concatenate([seen.sides[0][::-1], seen.sides[1]])
    line[BINS] -= seen.zeros  # exact in any range; counted, a ReLU's zeros would favour the narrowest one
    begin = BINS - max(round(-low / width), 0)
    end = BINS + max(round(high / width), 0)
    end = max(end, begin + 1)
    inside = line[begin:end].copy()
    inside[0] += line[:begin].sum()  # what is cut lies at the ends
    return _divergence_of(inside, line[begin:end], np.array([line[end:].sum()]), 256)
