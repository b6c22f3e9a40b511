"""Top-1 and top-5 accuracy and the mean accuracy of the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from suites.engine.gathering import ArrayMetric
from suites.engine.task import Batch


class Accuracy(ArrayMetric):
    """Figures: `top1`, `top5` (where there are more than 5 classes) and `mean_class`, the mean over classes of top-1.

    A class without samples does not count in `mean_class`. Equal scores count against the prediction; scores that are
    no numbers are wrong.

    Args:
        class_names: K names.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        super().__init__()
        self._count = len(class_names)

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [N, K] with the batch's `labels` [N]."""
        labels = np.asarray(batch["labels"])
        self.gather(labels=labels, ranks=ranks(outputs["scores"], labels))

    def result(self) -> dict[str, float]:
        """The figures, as shares of 1."""
        labels, places = self.gathered("labels"), self.gathered("ranks")
        figures = {"top1": float((places < 1).mean())}
        if self._count > 5:
            figures["top5"] = float((places < 5).mean())
        figures["mean_class"] = float(np.mean([(places[labels == k] < 1).mean() for k in np.unique(labels)]))
        return figures


def ranks(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """int64 [N]: how many other classes score as high as the right one or higher; scores: [N, K], labels: [N]."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    return (~(scores < own)).sum(axis=1) - 1  # the right one itself is not lower than itself
