"""JoinedRecognition: several data sets of labelled images or clips as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import ConfigError
from suites.vision.joining import Joining
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.sample import Labelled


class JoinedRecognition(Joining[RecognitionDataset], RecognitionDataset):
    """Data sets one behind the other; `order: {type: Shares}` says how often each is drawn from.

    Args:
        parts: data sets with the same classes in the same order, all with one label a sample or all with several.
    """

    def __init__(self, parts: Sequence[RecognitionDataset]) -> None:
        super().__init__(parts)
        if len({part.multi_label for part in parts}) > 1:
            raise ConfigError("Joined: samples of some parts have one label, of others several; join sets of one kind")
        self.multi_label = parts[0].multi_label
        self.labels = np.concatenate([part.labels for part in parts])

    def load(self, index: int, rng: np.random.Generator | None = None) -> Labelled:
        """Sample `index` of its own data set."""
        part, place = self.place_of(index)
        return part.load(place, rng)

    def class_counts(self) -> np.ndarray:
        """int64 [K]: samples of each class in all parts."""
        counts: np.ndarray = np.stack([part.class_counts() for part in self.parts]).sum(axis=0)
        return counts
