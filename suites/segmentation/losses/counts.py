"""ClassCounts: how often each class occurs, and the weights that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.segmentation.sample import IGNORE

Rule = Literal["median_frequency", "inverse_log", "batch"]


class ClassCounts:
    """How often each class occurs in a data set.

    Attributes:
        pixels: int64 [K], of each class.
        beside: int64 [K], all labelled pixels of the images in which the class is.
    """

    def __init__(self, labels: Iterable[np.ndarray], num_classes: int) -> None:
        """Args: label maps uint8 [H, W], of which `IGNORE` does not count; K."""
        self.pixels = np.zeros(num_classes, np.int64)
        self.beside = np.zeros(num_classes, np.int64)
        for image in labels:
            found = np.bincount(image.reshape(-1), minlength=IGNORE + 1)[:num_classes]
            self.pixels += found
            self.beside += np.where(found > 0, found.sum(), 0)

    def weights(self, rule: Rule) -> np.ndarray:
        """Float32 [K] by a rule over the data set; 0 for classes that do not occur.

        "median_frequency": the median of all frequencies over the class's own, where a frequency is over the images in
        which the class is (Eigen and Fergus 2015, arXiv:1411.4734, section 6.3.2). "inverse_log": 1 / ln(1.02 + share)
        (Paszke et al. 2016, arXiv:1606.02147, section 5.2).

        Raises:
            DataError: no pixel has a class.
        """
        seen = self.pixels > 0
        if not seen.any():
            raise DataError("class_weights: the training set has no labelled pixel; check its label maps")
        if rule == "median_frequency":
            frequency = self.pixels[seen] / self.beside[seen]
            of_seen = np.median(frequency) / frequency
        else:
            of_seen = 1 / np.log(1.02 + self.pixels[seen] / self.pixels.sum())
        found = np.zeros(len(self.pixels), np.float32)
        found[seen] = of_seen
        return found
