"""The figures of click-through rates: AUC, GAUC, log loss, calibration, and the error of score buckets.

Letters: N rows. Scores are probabilities in [0, 1], labels 0 or 1, weights 0 or more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Curves, Plot

_CLIP = 1e-7  # scores nearer to 0 or 1 count as this near in the log loss, as in most published figures


def auc(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Area under the ROC curve, exact: the share of pairs in order, equal scores half; NaN of one class alone.

    All arrays are [N]. With weights, a pair weighs their product.
    """
    w = np.ones(len(scores)) if weights is None else weights.astype(np.float64)
    order = np.argsort(scores, kind="stable")
    s, yes = scores[order], labels[order] > 0.5
    good, bad = np.where(yes, w[order], 0.0), np.where(yes, 0.0, w[order])
    if not len(s):
        return float("nan")
    starts = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    return _area(np.add.reduceat(good, starts), np.add.reduceat(bad, starts))


def _area(good: np.ndarray, bad: np.ndarray) -> float:
    """The AUC from the weights of clicks and of others at each score, ascending."""
    clicks, others = good.sum(), bad.sum()
    if clicks <= 0 or others <= 0:
        return float("nan")
    below = np.cumsum(bad) - bad
    return float((good * (below + 0.5 * bad)).sum() / (clicks * others))


def gauc(scores: np.ndarray, labels: np.ndarray, groups: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean AUC of the groups, such as users, each with its rows (or their weight); groups of one class are left out.

    As in DIN (Zhou et al. 2018, section 6.3). NaN where no group has both classes.
    """
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    total = weight = 0.0
    for rows in np.split(order, cuts):
        own = None if weights is None else weights[rows]
        value = auc(scores[rows], labels[rows], own)
        if not np.isnan(value):
            share = float(len(rows) if own is None else own.sum())
            total, weight = total + share * value, weight + share
    return total / weight if weight else float("nan")


def log_loss(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of -ln of the probability given to what happened; scores are clipped to [1e-7, 1 - 1e-7]."""
    p = np.clip(scores.astype(np.float64), _CLIP, 1 - _CLIP)
    return float(np.average(-np.where(labels > 0.5, np.log(p), np.log1p(-p)), weights=weights))


def copc(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Clicks over predicted clicks: above 1 the model predicts too few. NaN where it predicts none."""
    predicted = float(np.average(scores.astype(np.float64), weights=weights))
    return float(np.average(labels.astype(np.float64), weights=weights)) / predicted if predicted > 0 else float("nan")


def bucket_error(
    scores: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    buckets: int = 10_000,
    max_span: float = 0.01,
    max_error: float = 0.05,
) -> float:
    """Mean relative error of the click rate in ranges of scores, weighted by impressions.

    As Paddle's `BasicAucCalculator` does: equal buckets over [0, 1] are joined from the lowest on. A range is used once
    its click rate is known to a relative standard error below `max_error`, and begun anew once it spans `max_span`.
    0 where no range has enough rows.
    """
    w = np.ones(len(scores)) if weights is None else weights.astype(np.float64)
    place = _places(scores, buckets)
    shows, clicks = np.bincount(place, w, buckets), np.bincount(place, w * (labels > 0.5), buckets)
    return _range_error(shows, clicks, max_span, max_error)


def _places(scores: np.ndarray, buckets: int) -> np.ndarray:
    """The number of the equal range of [0, 1] that each score lies in."""
    return np.minimum((scores.astype(np.float64) * buckets).astype(np.int64), buckets - 1)


def _range_error(shows: np.ndarray, clicks: np.ndarray, max_span: float = 0.01, max_error: float = 0.05) -> float:
    """`bucket_error` from what was shown and clicked in each bucket."""
    buckets, shows, clicks = len(shows), shows.tolist(), clicks.tolist()
    found = total = 0.0
    start = -1.0
    clicked = shown = expected = 0.0  # of the range
    for i in range(buckets):
        rate = i / buckets
        if abs(rate - start) > max_span:
            start, clicked, shown, expected = rate, 0.0, 0.0, 0.0
        clicked, shown, expected = clicked + clicks[i], shown + shows[i], expected + shows[i] * rate
        if expected > 0 and math.sqrt(max(shown - expected, 0.0) / (expected * shown)) < max_error:
            found += abs(clicked / expected - 1) * shown
            total += shown
            start = -1.0
    return found / total if total else 0.0


class ScoreBins:
    """The figures of any number of rows in the memory of a million: rows by the range of [0, 1] that their score is in.

    All are exact but for the AUC, in which the scores of one range count as equal.
    """

    _bins, _buckets = 1_000_000, 10_000

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._good, self._bad = np.zeros(self._bins), np.zeros(self._bins)  # weights of clicks and of others
        self._sums = np.zeros(2)  # of log losses and of predictions, weighted
        self.rows = 0

    def add(self, part: np.ndarray) -> None:
        """Take in float32 [3, n]: scores, labels, weights."""
        scores, labels, weights = part.astype(np.float64)
        place, clicks = _places(scores, self._bins), weights * (labels > 0.5)
        np.add.at(self._good, place, clicks)
        np.add.at(self._bad, place, weights - clicks)
        total = float(weights.sum())
        if total > 0:
            self._sums += log_loss(scores, labels, weights) * total, float(scores @ weights)
        self.rows += len(scores)

    def take(self) -> dict[str, float]:
        """The figures of `click_figures` of all rows, which are forgotten."""
        clicks, shown = self._good.sum(), self._good.sum() + self._bad.sum()
        loss, predicted = self._sums
        each = (self._buckets, -1)
        of_buckets = [x.reshape(each).sum(axis=1) for x in (self._good + self._bad, self._good)]
        figures = {
            "auc": _area(self._good, self._bad),
            "log_loss": float(loss / shown) if shown > 0 else float("nan"),
            "copc": float(clicks / predicted) if predicted > 0 else float("nan"),
            "bucket_error": _range_error(*of_buckets),
            "positive": float(clicks / shown) if shown > 0 else float("nan"),
        }
        self._clear()
        return figures

    def state(self) -> np.ndarray:
        """What was taken in, float64 [3, k]: ranges that hold something with their two weights, and in the first column
        the number of rows and both sums."""
        held = np.flatnonzero(self._good + self._bad)
        first = np.array([[self.rows], [self._sums[0]], [self._sums[1]]], np.float64)
        return np.concatenate([first, np.stack([held, self._good[held], self._bad[held]])], axis=1)

    def load(self, state: np.ndarray) -> None:
        """Take up what `state` returned."""
        state = np.asarray(state)
        self.rows, self._sums = int(state[0, 0]), state[1:, 0].astype(np.float64)
        held = state[0, 1:].astype(np.int64)
        self._good[held], self._bad[held] = state[1:, 1:]


class ClickScores(ArrayMetric):
    """Figures of each label: `auc`, `log_loss`, `copc`, `bucket_error`, `positive`, and `gauc` of rows with groups.

    With several labels those of the first have plain names and those of each stand below its name too: `click/auc`.
    Rows whose label is no number (of a task that has no say about them) are left out of that label's figures.

    Args:
        labels: names of the L labels.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        self._names = list(labels)

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [n, L] with the batch's `labels` [n, L], `group` and `weight` [n] if it has some."""
        more = {name: batch[name] for name in ("group", "weight") if name in batch}
        self.gather(scores=outputs["scores"], labels=batch["labels"], **more)

    def result(self) -> dict[str, float]:
        """The figures."""
        each = [self._of(place) for place in range(len(self._names))]
        if len(each) == 1:
            return each[0]
        return each[0] | {
            f"{name}/{key}": value for name, own in zip(self._names, each, strict=True) for key, value in own.items()
        }

    def plots(self) -> Sequence[Plot]:
        """How often rows of each predicted rate were clicked, in 20 groups of equally many rows; of the first label."""
        scores, labels = self.gathered("scores")[:, 0], self.gathered("labels")[:, 0]
        known = ~np.isnan(labels)
        groups = np.array_split(np.argsort(scores[known], kind="stable"), 20)
        said = [float(scores[known][rows].mean()) for rows in groups if len(rows)]
        seen = [float(labels[known][rows].mean()) for rows in groups if len(rows)]
        series = {"measured": (said, seen), "right": (said, said)}
        return [Curves("Calibration", "predicted rate", "rate of clicks", series, marks=True)]

    def _of(self, place: int) -> dict[str, float]:
        scores, labels = self.gathered("scores")[:, place], self.gathered("labels")[:, place]
        known = ~np.isnan(labels)
        weights = self.gathered("weight")[known] if "weight" in self._parts else None
        scores, labels = scores[known], labels[known]
        figures = click_figures(scores, labels, weights)
        if "group" in self._parts:
            figures["gauc"] = gauc(scores, labels, self.gathered("group")[known], weights)
        return figures


def click_figures(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """`auc`, `log_loss`, `copc`, `bucket_error` and `positive` (the share of clicks) of rows [N]."""
    return {
        "auc": auc(scores, labels, weights),
        "log_loss": log_loss(scores, labels, weights),
        "copc": copc(scores, labels, weights),
        "bucket_error": bucket_error(scores, labels, weights),
        "positive": float(np.average(labels, weights=weights)),
    }
