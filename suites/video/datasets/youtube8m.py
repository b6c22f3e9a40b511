"""YouTube8M: frame-level features of YouTube-8M, TFRecord files of SequenceExamples (https://research.google.com/youtube8m)."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from framework.errors import DataError
from framework.outside import open_file
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import find_data, places_tried
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.video.datasets.tfrecord import read_sequence_example, record_places
from suites.video.sequences import FeatureSequence
from suites.vision.recognition.datasets import RecognitionDataset

_SIZES = {"rgb": 1024, "audio": 128}
_CLASSES = 3862  # of the 2018 version
_STEP, _LEAST = 4 / 255, 4 / 512 - 2  # a byte stands for a number in [-2, 2], in the middle of its 1 / 256th


@register("dataset")
class YouTube8M(RecognitionDataset):
    """Videos with any number of classes, by index; files are read where they lie, a record at a time.

    A feature's byte q stands for 4 q / 255 + 4 / 512 - 2, as in the authors' starter code.

    Args:
        files: pattern of the TFRecord files, such as data/yt8m/train*.tfrecord.
        modalities: what is taken, and its columns; {rgb: 1024, audio: 128} by default.
        classes: names of the classes, or how many there are.
        most_rows: rows of a video at most; 300 in the data set.
        max_skipped: share of the files that may be damaged or cut off; they are left out and logged. 0: the first one
            is an error.
    """

    multi_label = True

    def __init__(
        self,
        files: str,
        modalities: dict[str, int] | None = None,
        classes: list[str] | int = _CLASSES,
        most_rows: int = 300,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        pattern = Path(files)
        paths = sorted(glob.glob(str(find_data(pattern.parent) / pattern.name)))
        if not paths:
            raise DataError(f"YouTube8M {files}: there are no such files; {places_tried(pattern.parent)}")
        self.class_names = tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(classes)
        self._modalities: Mapping[str, int] = dict(modalities or _SIZES)
        self._most_rows = most_rows
        self._skipped = Tally()
        found = usable(f"YouTube8M {files}", paths, record_places, max_skipped, self._skipped, "files")
        self._paths, places = [path for path, _ in found], [each for _, each in found]
        self._file = np.repeat(np.arange(len(places)), [len(found) for found in places])
        self._places = np.concatenate([np.zeros((0, 2), np.int64), *places])
        self.labels = np.zeros(len(self._places), np.int64)  # the first of each is known when it is read
        if not len(self):
            raise DataError(f"YouTube8M {files}: the files hold no records")

    def load(self, index: int, rng: np.random.Generator | None = None) -> FeatureSequence:  # type: ignore[override]
        """The sequence of record `index`."""
        start, length = self._places[index].tolist()
        with open_file(self._paths[self._file[index]], "data_bytes", DataError) as file:
            file.seek(start)
            data = file.read(length)
        name = self.name_of(index)
        try:
            context, lists = read_sequence_example(data)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        labels = np.asarray(context.get("labels", []))
        if labels.dtype.kind not in "if" or (len(labels) and not 0 <= labels.min() <= labels.max() < self.num_classes):
            raise DataError(f"{name}: its labels {labels[:5]} are not of the {self.num_classes} classes")
        labels = np.unique(labels.astype(np.int64))
        features = {m: self._rows(name, m, lists.get(m, [])) for m in self._modalities}
        rows = min(map(len, features.values()))
        if rows < 1:
            raise DataError(f"{name}: has no rows of {', '.join(self._modalities)}")
        cut = {m: values[: min(rows, self._most_rows)] for m, values in features.items()}
        return FeatureSequence(features=cut, labels=labels, weights=np.ones(len(labels), np.float32), name=name)

    def _rows(self, name: str, modality: str, rows: list[bytes]) -> np.ndarray:
        columns = self._modalities[modality]
        if any(len(row) != columns for row in rows):
            raise DataError(f"{name}: a row of {modality} has not the {columns} bytes that `modalities` says")
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, columns) * np.float32(_STEP) + np.float32(_LEAST)

    def name_of(self, index: int) -> str:
        """File and number of the record in it."""
        number = index - int(np.searchsorted(self._file, self._file[index]))
        return f"{os.path.basename(self._paths[self._file[index]])}:{number}"
