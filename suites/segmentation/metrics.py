"""Figures of segmentation: from one confusion matrix of whole numbers, and of the borders between classes."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from framework.errors import AttributeValueError, DataError, ShapeError
from suites.segmentation.sample import IGNORE


class ConfusionMatrix:
    """Counts pixels by true and predicted class over a whole data set.

    Letters: t_i pixels of class i, p_i pixels predicted as i, n_i both, n all.

    Attributes:
        counts: int64 [K, K + 1], row true class, column predicted class; the last column counts pixels to which the
            prediction gives no class of the K, which are wrong and of no class's p_i.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        self.class_names = tuple(class_names)
        self.counts = np.zeros((len(class_names), len(class_names) + 1), np.int64)

    def add(self, truth: np.ndarray, found: np.ndarray) -> None:
        """Take in one image's true and predicted labels, uint8 [H, W]; pixels that are `IGNORE` in truth do not count.

        Raises:
            ShapeError: they differ in size.
            DataError: truth has a label that is neither a class nor `IGNORE`.
        """
        if truth.shape != found.shape:
            raise ShapeError(f"ConfusionMatrix: truth is {list(truth.shape)} but the prediction {list(found.shape)}")
        classes, counted = len(self.class_names), truth != IGNORE
        labels = truth[counted].astype(np.int64)
        if labels.size and labels.max() >= classes:
            raise DataError(f"ConfusionMatrix: truth has the label {labels.max()}, but there are {classes} classes")
        pairs = labels * (classes + 1) + np.minimum(found[counted].astype(np.int64), classes)
        self.counts += np.bincount(pairs, minlength=self.counts.size).reshape(self.counts.shape)

    def merge(self, counts: np.ndarray) -> None:
        """Take in the counts int64 [K, K + 1] of another part of the data set."""
        self.counts += counts

    def class_iou(self) -> dict[str, float]:
        """Intersection over union, n_i / (t_i + p_i - n_i), by name; of classes that are seen or predicted."""
        return self._shares(self._both(), self._true() + self._found() - self._both())

    def result(self) -> dict[str, float]:
        """Flat names to numbers.

        mIoU and mDice: means over the classes that are seen or predicted. accuracy: sum n_i / n. class_accuracy: mean
        recall, n_i / t_i, over the classes that are seen. mPrecision: mean of n_i / p_i over those that are predicted.
        kappa: (accuracy - chance) / (1 - chance), where chance is sum t_i p_i / n^2 (Cohen 1960). IoU/<class>,
        precision/<class> and recall/<class>: of each class.
        """
        by_class = self.class_iou()
        iou = np.array(list(by_class.values()) or [0.0])
        true, found, both = self._true(), self._found(), self._both()
        total = max(int(true.sum()), 1)
        accuracy, chance = both.sum() / total, float((true / total) @ (found / total))
        recall, precision = self._shares(both, true), self._shares(both, found)
        figures = {
            "mIoU": iou.mean(),
            "accuracy": accuracy,
            "class_accuracy": np.mean([*recall.values()]) if recall else 0.0,
            "mPrecision": np.mean([*precision.values()]) if precision else 0.0,
            "kappa": (accuracy - chance) / (1 - chance) if chance < 1 else 1.0,
            "mDice": (2 * iou / (1 + iou)).mean(),
        }
        for kind, values in (("IoU", by_class), ("precision", precision), ("recall", recall)):
            figures |= {f"{kind}/{name}": value for name, value in values.items()}
        return {name: float(value) for name, value in figures.items()}

    def _shares(self, part: np.ndarray, whole: np.ndarray) -> dict[str, float]:
        """part / whole by class name, of classes whose whole is not 0."""
        return {name: float(part[i] / whole[i]) for i, name in enumerate(self.class_names) if whole[i]}

    def _true(self) -> np.ndarray:
        return self.counts.sum(axis=1)

    def _found(self) -> np.ndarray:
        return self.counts[:, :-1].sum(axis=0)

    def _both(self) -> np.ndarray:
        return self.counts.diagonal()


class BoundaryF1:
    """How well borders between classes are met: F1 of border pixels within a tolerance (Csurka et al. 2013).

    A border pixel of a class has a neighbour of another class above, below, left or right; borders to `IGNORE` are
    none. It is met where the other map has a border pixel of the same class within the tolerance. Pixels are counted
    over the whole data set, not image by image.

    Args:
        classes: K.
        tolerance: share of an image's diagonal, such as 0.0075; at least a pixel.

    Attributes:
        counts: int64 [4, K]: border pixels of truth, those of them that are met, those of predictions, those met.
    """

    def __init__(self, classes: int, tolerance: float = 0.0075) -> None:
        if not 0 < tolerance < 1:
            raise AttributeValueError(f"BoundaryF1: tolerance is {tolerance}; it must be above 0 and below 1")
        self._tolerance = tolerance
        self.counts = np.zeros((4, classes), np.int64)

    def add(self, truth: np.ndarray, found: np.ndarray) -> None:
        """Take in one image's true and predicted labels, uint8 [H, W] each; of truth `IGNORE` does not count."""
        reach = max(1.0, self._tolerance * float(np.hypot(*truth.shape)))
        found = np.where(truth == IGNORE, np.uint8(IGNORE), found)
        maps = (truth, _borders(truth)), (found, _borders(found))
        for k in range(self.counts.shape[1]):
            of_truth, of_found = ((labels == k) & borders for labels, borders in maps)
            for row, own, other in ((0, of_truth, of_found), (2, of_found, of_truth)):
                self.counts[row, k] += np.count_nonzero(own)
                self.counts[row + 1, k] += _met(own, other, reach)

    def merge(self, counts: np.ndarray) -> None:
        """Take in the counts int64 [4, K] of another part of the data set."""
        self.counts += counts

    def result(self) -> dict[str, float]:
        """boundary_F1: the mean of 2 P R / (P + R) over the classes with a border in truth or predictions; 0 for none.

        P is the share of predicted border pixels that are met, R that of the true ones.
        """
        true, true_met, found, found_met = self.counts
        there = (true + found) > 0
        if not there.any():
            return {"boundary_F1": 0.0}
        precision, recall = found_met / np.maximum(found, 1), true_met / np.maximum(true, 1)
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        return {"boundary_F1": float(f1[there].mean())}


def _borders(labels: np.ndarray) -> np.ndarray:
    """Where a pixel of labels uint8 [H, W] has a neighbour of another class: bool [H, W]."""
    found = np.zeros(labels.shape, bool)
    for axis in (0, 1):
        a, b = (labels[:-1], labels[1:]) if axis == 0 else (labels[:, :-1], labels[:, 1:])
        differ = (a != b) & (a != IGNORE) & (b != IGNORE)
        for part in (found[:-1], found[1:]) if axis == 0 else (found[:, :-1], found[:, 1:]):
            part |= differ
    return found


def _met(own: np.ndarray, other: np.ndarray, reach: float) -> int:
    """How many pixels of one mask have one of the other within `reach` pixels."""
    if not own.any() or not other.any():
        return 0
    away = cv2.distanceTransform((~other).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return int(np.count_nonzero(away[own] <= reach))
