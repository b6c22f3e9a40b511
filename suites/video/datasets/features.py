"""ClipFeatures: what `paddock features` extracted from clips, with the classes of a list."""

from __future__ import annotations

import numpy as np

from framework.errors import DataError
from suites.engine.registry import register
from suites.engine.sources import find_data, open_source
from suites.video.features import FeatureStore
from suites.video.features.clips import read_clip_list
from suites.video.sequences import FeatureSequence
from suites.vision.recognition.datasets import RecognitionDataset, read_classes, read_labels


@register("dataset")
class ClipFeatures(RecognitionDataset):
    """The features of the clips that a list names, a line each: `path label` or `path frames label`.

    Args:
        features: folder that `paddock features` wrote.
        root: folder or zip with the lists, as of the clips themselves.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
    """

    def __init__(self, features: str, root: str, annotations: str, classes: str | list[str] | None = None) -> None:
        source = open_source(root)
        rows = read_clip_list(source, annotations)
        self.class_names = read_classes(source, classes, rows)
        self.labels = read_labels(source, annotations, rows, self.class_names)
        self._store = FeatureStore(find_data(features))
        self._names = tuple(row[0] for row in rows)
        found = [self._store.index_of(name) for name in self._names]
        missing = [name for name, index in zip(self._names, found, strict=True) if index is None]
        if missing:
            raise DataError(
                f"ClipFeatures {features}: {len(missing)} of {len(rows)} clips of {annotations} have no features, the "
                f"first is {missing[0]}; run `paddock features` on them"
            )
        self._index = np.array(found, np.int64)
        self.say(f"ClipFeatures {features} {annotations}")

    def load(self, index: int, rng: np.random.Generator | None = None) -> FeatureSequence:  # type: ignore[override]
        """The sequence of clip `index`."""
        rows = self._store.load(int(self._index[index]))
        return FeatureSequence(features=rows, labels=self.labels[index : index + 1], name=self.name_of(index))

    def name_of(self, index: int) -> str:
        """The clip."""
        return self._names[index]
