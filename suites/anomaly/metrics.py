"""Figures of anomalies: AUROC of pictures and of pixels, PRO, F1, and what the model's own threshold misses.

Numbers of pixels are counted in 2^20 classes of equal relative width (2^-12): memory does not grow with the set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from suites.anomaly.sample import IGNORE
from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.engine.reporting import Case, Curves, Plot

PRO_LIMIT = 0.3  # share of good pixels above the threshold to which PRO is integrated; MVTec AD's
_BITS = 11  # of a float32 that a class of numbers leaves out
_CLASSES = 1 << (31 - _BITS)
_SAVED = ("scores", "labels", "numbers")


class AnomalyMetric(Metric):
    """Compares scores and heat maps with what is known.

    `image_AUROC` and `F1` (at its best threshold, `F1_threshold`) are of pictures; `missed` is the share of pictures
    with defects that the model's own threshold, 1, lets through, `false_alarms` that of good ones which it stops.
    With masks there are `pixel_AUROC`, `pixel_F1` and `PRO`: the mean share of each defect that is above a threshold,
    integrated over the share of good pixels above it up to 0.3 (Bergmann et al. 2021, section 6.2). A defect is what
    hangs together by sides or corners. What one kind of picture alone can tell is left out without it.

    Args:
        masks: whether the place of every defect is known.
    """

    def __init__(self, masks: bool) -> None:
        self._has_masks = masks
        self._rows: dict[str, list[np.ndarray]] = {name: [] for name in _SAVED}
        self._good, self._bad = np.zeros(_CLASSES, np.int64), np.zeros(_CLASSES, np.int64)
        self._shares, self._regions = np.zeros(_CLASSES), 0

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [N] and `maps` [N, H, W] of one batch."""
        for name in _SAVED:
            self._rows[name].append(np.array(outputs[name] if name == "scores" else batch[name]))
        if not self._has_masks:
            return
        for heat, mask in zip(outputs["maps"], batch["masks"], strict=True):
            classes = classes_of(heat)
            self._good += np.bincount(classes[mask == 0], minlength=_CLASSES)
            self._bad += np.bincount(classes[mask == 1], minlength=_CLASSES)
            count, regions = cv2.connectedComponents((mask == 1).astype(np.uint8), connectivity=8)
            sizes = np.bincount(regions[mask != IGNORE], minlength=count)
            inside = regions > 0
            self._shares += np.bincount(classes[inside], 1 / sizes[regions[inside]], minlength=_CLASSES)
            self._regions += count - 1

    def state(self) -> dict[str, Any]:
        """Scores, and the counts of pixels."""
        rows = {name: np.concatenate(parts) for name, parts in self._rows.items() if parts}
        return {**rows, "good": self._good, "bad": self._bad, "shares": self._shares, "regions": self._regions}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the other pictures."""
        for name in _SAVED:
            if name in state:
                self._rows[name].append(np.asarray(state[name]))
        self._good = self._good + state["good"]
        self._bad = self._bad + state["bad"]
        self._shares = self._shares + state["shares"]
        self._regions += int(state["regions"])

    def _pictures(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, labels and numbers, by number."""
        if not self._rows["scores"]:
            return np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        scores, labels, numbers = (np.concatenate(self._rows[name]) for name in _SAVED)
        order = np.argsort(numbers, kind="stable")
        return scores[order].astype(np.float64), labels[order], numbers[order]

    def result(self) -> dict[str, float]:
        """The figures; see the class."""
        scores, labels, _ = self._pictures()
        found: dict[str, float] = {}
        good, bad = scores[labels == 0], scores[labels == 1]
        if len(good) and len(bad):
            values, at = np.unique(scores, return_inverse=True)
            fine, wrong = (np.bincount(at[labels == label], minlength=len(values)) for label in (0, 1))
            found["image_AUROC"] = auroc(fine, wrong)
            found["F1"], found["F1_threshold"] = best_f1(fine, wrong, values)
        if len(bad):
            found["missed"] = float(np.mean(bad <= 1))
        if len(good):
            found["false_alarms"] = float(np.mean(good > 1))
        if self._has_masks and self._good.any() and self._bad.any():
            held = np.flatnonzero(self._good + self._bad)
            good, bad = self._good[held], self._bad[held]
            found["pixel_AUROC"] = auroc(good, bad)
            found["PRO"] = pro(good, self._shares[held], self._regions)
            found["pixel_F1"], found["pixel_F1_threshold"] = best_f1(good, bad, numbers_of(held))
        return found

    def plots(self) -> Sequence[Plot]:
        """The ROC curve of pictures."""
        scores, labels, _ = self._pictures()
        if not (labels == 0).any() or not (labels == 1).any():
            return ()
        order = np.argsort(-scores, kind="stable")
        rates = [[0.0, *np.cumsum(labels[order] == label) / (labels == label).sum()] for label in (0, 1)]
        title = "Defects found against false alarms"
        return (Curves(title, "false alarms", "defects found", {"pictures": (rates[0], rates[1])}),)

    def worst(self, count: int) -> Mapping[str, Sequence[Case]]:
        """Good pictures with the highest scores, and defects with the lowest."""
        scores, labels, numbers = self._pictures()
        found: dict[str, Sequence[Case]] = {}
        for label, sign, name in ((0, -1, "good, with the highest scores"), (1, 1, "defects, with the lowest scores")):
            places = np.flatnonzero(labels == label)
            order = places[np.argsort(sign * scores[places], kind="stable")][:count]
            found[name] = [Case(int(numbers[at]), f"score {scores[at]:.3f}; 1 is the threshold") for at in order]
        return {name: cases for name, cases in found.items() if cases}


def classes_of(heat: np.ndarray) -> np.ndarray:
    """The class of each number, float32 of 0 or more: its bits without the last ones, which keep the order."""
    return (np.maximum(heat, 0).astype(np.float32).view(np.uint32) >> _BITS).astype(np.int64)


def numbers_of(classes: np.ndarray) -> np.ndarray:
    """The least number of each class."""
    found: np.ndarray = (classes.astype(np.uint32) << _BITS).view(np.float32).astype(np.float64)
    return found


def auroc(good: np.ndarray, bad: np.ndarray) -> float:
    """Area under the ROC curve of counts [V] of good and bad at ascending scores; ties count half."""
    below = np.cumsum(good) - good
    return float(np.sum(bad * (below + good / 2)) / (good.sum(dtype=np.float64) * bad.sum(dtype=np.float64)))


def best_f1(good: np.ndarray, bad: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """The highest F1 of counts [V] at ascending scores, and the threshold, midway to the score below, which may be 0.

    What is above the threshold is taken for bad, so it lies below the scores that this F1 takes.
    """
    right = np.cumsum(bad[::-1])[::-1]
    taken = right + np.cumsum(good[::-1])[::-1]
    f1 = 2 * right / (taken + bad.sum())
    at = int(f1.argmax())
    return float(f1[at]), float(scores[at] + (scores[at - 1] if at else 0.0)) / 2


def pro(good: np.ndarray, shares: np.ndarray, regions: int, limit: float = PRO_LIMIT) -> float:
    """PRO up to a share `limit` of good pixels.

    Args:
        good: [V], good pixels at ascending scores.
        shares: [V], at each score the sum over all regions of the share of its pixels.
        regions: how many.
        limit: to which share of good pixels; the area is divided by it.
    """
    false = np.concatenate([[0.0], np.cumsum(good[::-1]) / good.sum()])
    found = np.concatenate([[0.0], np.cumsum(shares[::-1]) / regions])
    last = int(np.searchsorted(false, limit, side="right"))
    xs = np.append(false[:last], limit)
    ys = np.append(found[:last], np.interp(limit, false, found))
    return float(np.sum(np.diff(xs) * (ys[1:] + ys[:-1]) / 2) / limit)
