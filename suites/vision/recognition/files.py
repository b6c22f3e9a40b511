"""ImageFiles: labelled image files of a folder or zip, which the suites of recognition share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.vision.pictures.damaged import find_damaged
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.sample import LabelledImage


class ImageFiles(RecognitionDataset):
    """Image files of a folder or zip, with their labels."""

    def __init__(
        self, what: str, source: Source, names: Sequence[str], labels: np.ndarray, classes: Sequence[str]
    ) -> None:
        """Args: words for messages, where the files lie, their names, int64 labels, names of the classes."""
        self.class_names = tuple(classes)
        self.labels = labels
        self._files = source.table(names)
        self.passed = source.passed
        self.say(what)
        self.damaged = find_damaged(what, self._files)

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledImage:
        """Image `index`."""
        name = self.name_of(index)
        return LabelledImage.of(decode_image(self._files.read(index), name), int(self.labels[index]), name)

    def name_of(self, index: int) -> str:
        """The image file."""
        return self._files.full_name(index)

    def names(self) -> list[str]:
        """The image files."""
        return self._files.full_names()

    def labels_of(self, index: int) -> np.ndarray:
        """Classes of image `index`, int64 [L]."""
        return self.labels[index : index + 1]

    def glances(self) -> Iterator[Glance | DataError]:
        """What their files say."""
        return glances(self._files, np.arange(len(self)))
