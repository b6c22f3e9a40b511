"""ClipFeatures: what `paddock features` extracted from clips, with the classes of a list."""

from __future__ import annotations

import numpy as np

from framework.errors import DataError
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import find_data, open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.video.features import FeatureStore
from suites.video.features.clips import path_of_clip
from suites.video.sequences import FeatureSequence
from suites.vision.files import read_list
from suites.vision.recognition.datasets import RecognitionDataset, read_classes, read_labels


@register("dataset")
class ClipFeatures(RecognitionDataset):
    """The features of the clips that a list names, a line each: `path label` or `path frames label`.

    Args:
        features: folder that `paddock features` wrote.
        root: folder or zip with the lists, as of the clips themselves.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        max_skipped: share of the lines that may be wrong or name a clip without features; they are left out and
            logged. 0: the first one is an error.
    """

    def __init__(
        self,
        features: str,
        root: str,
        annotations: str,
        classes: str | list[str] | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        self._store = FeatureStore(find_data(features))

        def read(line: str) -> tuple[list[str], int]:
            row = path_of_clip(line)
            index = self._store.index_of(row[0])
            if index is None:
                raise DataError(f"{row[0]} has no features in {features}; run `paddock features` on it")
            return row, index

        self._skipped = Tally()
        found = read_list(source, annotations, read, max_skipped, self._skipped)
        rows = [row for row, _ in found]
        self.class_names = read_classes(source, classes, rows)
        self.labels = read_labels(source, annotations, rows, self.class_names)
        self._names = tuple(row[0] for row in rows)
        self._index = np.array([index for _, index in found], np.int64)
        self.say(f"ClipFeatures {features} {annotations}")

    def load(self, index: int, rng: np.random.Generator | None = None) -> FeatureSequence:  # type: ignore[override]
        """The sequence of clip `index`."""
        rows = self._store.load(int(self._index[index]))
        return FeatureSequence(features=rows, labels=self.labels[index : index + 1], name=self.name_of(index))

    def name_of(self, index: int) -> str:
        """The clip."""
        return self._names[index]
