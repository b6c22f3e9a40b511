"""Figures of segmentation, all from one confusion matrix of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import DataError, ShapeError
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
        both, either = self._both(), self._true() + self._found() - self._both()
        return {name: float(both[i] / either[i]) for i, name in enumerate(self.class_names) if either[i]}

    def result(self) -> dict[str, float]:
        """Flat names to numbers.

        mIoU and mDice: means over the classes that are seen or predicted. accuracy: sum n_i / n. class_accuracy: mean
        of n_i / t_i over the classes that are seen. kappa: (accuracy - chance) / (1 - chance), where chance is
        sum t_i p_i / n^2 (Cohen 1960). IoU/<class>: of each class.
        """
        by_class = self.class_iou()
        iou = np.array(list(by_class.values()) or [0.0])
        true, found, both = self._true(), self._found(), self._both()
        total = max(int(true.sum()), 1)
        accuracy, chance = both.sum() / total, float((true / total) @ (found / total))
        recall = both[true > 0] / true[true > 0]
        figures = {
            "mIoU": iou.mean(),
            "accuracy": accuracy,
            "class_accuracy": recall.mean() if len(recall) else 0.0,
            "kappa": (accuracy - chance) / (1 - chance) if chance < 1 else 1.0,
            "mDice": (2 * iou / (1 + iou)).mean(),
        }
        figures |= {f"IoU/{name}": value for name, value in by_class.items()}
        return {name: float(value) for name, value in figures.items()}

    def _true(self) -> np.ndarray:
        return self.counts.sum(axis=1)

    def _found(self) -> np.ndarray:
        return self.counts[:, :-1].sum(axis=0)

    def _both(self) -> np.ndarray:
        return self.counts.diagonal()
