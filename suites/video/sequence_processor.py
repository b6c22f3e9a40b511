"""What stands around a classifier of feature sequences when it predicts: feature files, class names, a line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError, DataError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import ServedProcessor
from suites.video.features import FeatureStore
from suites.video.sequences import FeatureSequence, collate_sequences
from suites.vision.augmentation.pipeline import Transform
from suites.vision.recognition.processor import best_classes

Item = Mapping[str, np.ndarray]  # [T, C] of each modality


class SequenceProcessor(ServedProcessor):
    """Sequences to batches, scores to class names; an item is [T, C] of each modality.

    An input is each clip of a folder that `paddock features` wrote. In JSON an item is an object of lists of rows.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        modalities: columns of each.
    """

    batch_size: ClassVar[int] = 32

    def __init__(
        self, transforms: Sequence[Transform], class_names: Sequence[str], modalities: Mapping[str, int]
    ) -> None:
        self._transforms = list(transforms)
        self._class_names = tuple(class_names)
        self._modalities = dict(modalities)

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {
            "transforms": plain(self._transforms, suite="video"),
            "class_names": list(self._class_names),
            "modalities": self._modalities,
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> SequenceProcessor:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        try:
            transforms = build_value(metadata["transforms"], list[Transform], suite="video")
            return cls(transforms, metadata["class_names"], metadata["modalities"])
        except KeyError as error:
            raise CheckpointError(f"SequenceProcessor: the model's metadata lack {error}") from error

    def takes(self, path: Path) -> bool:
        """A folder of features."""
        return (path / "features.json").is_file()

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """(name, what reads it) of each clip of a folder of features."""
        store = self._store(Path(word))
        return [(name, partial(store.load, i)) for i, name in enumerate(store.names)]

    def read(self, path: Path) -> Item:
        """The first clip of a folder of features."""
        return self._store(path).load(0)

    def _store(self, path: Path) -> FeatureStore:
        store = FeatureStore(path)
        if store.modalities != self._modalities or not len(store):
            raise DataError(
                f"features {path}: holds {len(store)} clips of {store.modalities}; the model takes {self._modalities}"
            )
        return store

    def prepare(self, items: Sequence[Item]) -> Batch:
        """Sequences as a batch, exactly as in evaluation."""
        rng = np.random.default_rng(0)
        samples = [FeatureSequence(features=item, name=f"input {i}") for i, item in enumerate(items)]
        for transform in self._transforms:
            samples = [transform(sample, rng) for sample in samples]
        return collate_sequences(samples, len(self._class_names))

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each item its best classes with their scores, best first."""
        return best_classes(outputs["scores"], self._class_names)

    def draw(self, item: Item, result: list[dict[str, Any]]) -> str:
        """How long the sequence is, and its best classes."""
        rows = len(next(iter(item.values())))
        return f"{rows} rows: " + ", ".join(f"{found['class']} {found['score']:.2f}" for found in result)

    def item(self, given: Any) -> Item:
        """Arrays [T, C] by modality, checked as those of a request are."""
        return self.from_json(dict(given) if isinstance(given, Mapping) else given)

    def from_json(self, value: Any) -> Item:
        """The item of a request: an object with a list of rows for each modality, all with as many rows."""
        if not isinstance(value, dict) or value.keys() != self._modalities.keys():
            raise DataError(f"takes an object with the lists of rows {', '.join(self._modalities)}")
        item = {}
        for name, columns in self._modalities.items():
            try:
                rows = np.array(value[name], np.float32)
            except (TypeError, ValueError, OverflowError):
                rows = np.zeros(0, np.float32)
            if rows.ndim != 2 or rows.shape[1] != columns or not len(rows) or not np.isfinite(rows).all():
                raise DataError(f"{name}: takes one or more rows of {columns} finite numbers")
            item[name] = rows
        if len({len(rows) for rows in item.values()}) != 1:
            raise DataError(f"takes as many rows of each of {', '.join(self._modalities)}")
        return item

    def cost(self, item: Item) -> int:
        """Rows of a sequence."""
        return len(next(iter(item.values())))

    def example(self) -> dict[str, list[list[float]]]:
        """Two rows of zeros."""
        return {name: [[0.0] * columns] * 2 for name, columns in self._modalities.items()}
