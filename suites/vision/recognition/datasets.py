"""What every recognition dataset offers, and how list files and class names are read."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.passed import PassedOver
from suites.engine.data.skipping import SetError
from suites.engine.reporting import Tally
from suites.vision.augmentation.pipeline import Augmented
from suites.vision.files import read_classes_file
from suites.vision.pictures.glances import Glance
from suites.vision.recognition.sample import Labelled

_log = logging.getLogger(__name__)
_MOST_DIGITS = 9  # of a number in a list


class RecognitionDataset(ABC):
    """Images or clips with one label each, by index; read-only and picklable.

    Attributes:
        class_names: K names; a label is an index into it.
        labels: int64 [samples]; the first of each where samples have several, -1 of one without any.
        multi_label: whether samples have any number of classes.
        passed: what lies among its files and is not read; None where it has no files.
    """

    class_names: tuple[str, ...]
    labels: np.ndarray
    multi_label: bool = False
    passed: PassedOver | None = None
    _skipped: Tally | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def load(self, index: int, rng: np.random.Generator | None = None) -> Labelled:
        """Sample `index`. What is chosen of a long video is drawn from `rng` in training, fixed where it is None.

        Raises a DataError that names a file that cannot be used.
        """

    def __getitem__(self, index: int) -> Labelled:
        """Sample `index`, nothing of it chosen at random."""
        return self.load(index)

    @abstractmethod
    def name_of(self, index: int) -> str:
        """The file, or other name, of sample `index` for messages."""

    def names(self) -> list[str]:
        """The `name_of` each sample."""
        return [self.name_of(at) for at in range(len(self))]

    def labels_of(self, index: int) -> np.ndarray:
        """Classes of sample `index`, int64 [L]."""
        return self[index].labels

    def glances(self) -> Iterator[Glance | DataError | None]:
        """Of each sample what its file says without decoding, or why it cannot be used; None where it has no file."""
        return repeat(None, len(self))

    def skipped(self) -> Tally:
        """Samples that cannot be used and were left out when the set was opened, and why."""
        return self._skipped or Tally()

    def class_counts(self) -> np.ndarray:
        """int64 [K]: samples of each class."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.num_classes)

    def say(self, what: str) -> None:
        """Logs how many samples there are of which class; `what` names the set. Raises DataError if there are none."""
        if not len(self):
            raise DataError(f"{what}: there are no samples")
        pairs = zip(self.class_names, self.class_counts(), strict=True)
        shown = [f"{name} {count}" for name, count in pairs]
        names = ", ".join(shown[:12]) + (" ..." if len(shown) > 12 else "")
        _log.info("%s: %d samples of %d classes (%s)", what, len(self), self.num_classes, names)
        if self.passed is not None:
            self.passed.say(what)


class Drawn(Augmented):
    """A dataset with its transforms, which in training chooses frames of a long video at random.

    Args:
        dataset: the samples.
        transforms: applied in this order.
    """

    dataset: RecognitionDataset

    def _load(self, index: int, rng: np.random.Generator) -> Labelled:
        return self.dataset.load(index, rng)


class Numbered(Augmented):
    """A dataset with its transforms, whose samples tell their numbers; for evaluation."""

    def _load(self, index: int, rng: np.random.Generator) -> Any:
        return replace(self.dataset[index], number=index)


def path_and_numbers(line: str, columns: int) -> list[str]:
    """A path, which may hold spaces, and `columns - 1` whole numbers; DataError for any other line."""
    cells = line.rsplit(None, columns - 1)
    if len(cells) != columns or not all(map(is_number, cells[1:])):
        wanted = " ".join(["path", "frames", "label"] if columns == 3 else ["path", "label"])
        raise DataError(f"expects '{wanted}', found {line!r}")
    return cells


def path_and_labels(line: str) -> tuple[str, list[int]]:
    """A path and labels joined by commas; `-` for none of the classes. DataError for any other line."""
    path, *last = line.rsplit(None, 1)
    labels = [] if last == ["-"] else last[0].split(",") if last else [""]
    if not all(map(is_number, labels)):
        raise DataError(f"expects 'path 0,3,5' or 'path -', found {line!r}")
    return path, sorted({int(label) for label in labels})


def is_number(cell: str) -> bool:
    """Whether a cell of a list is a whole number of 0 or more, of at most nine digits."""
    return cell.isascii() and cell.isdigit() and len(cell) <= _MOST_DIGITS


def read_labels(source: Source, name: str, rows: Sequence[Sequence[str]], classes: Sequence[str]) -> np.ndarray:
    """The last column of a list's `rows` as int64 labels; a SetError names one that is no class."""
    labels = np.array([int(row[-1]) for row in rows], np.int64)
    if labels.max() >= len(classes):
        row = rows[int(labels.argmax())]
        raise SetError(
            f"{source.root}/{name}: {row[0]} has label {row[-1]} but there are {len(classes)} classes, 0 to "
            f"{len(classes) - 1}"
        )
    return labels


def read_classes(source: Source, classes: str | list[str] | None, rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Names of the classes: as given, or from a file under the root with a name a line, else the labels' numbers."""
    if classes is None:
        return tuple(map(str, range(max(int(row[-1]) for row in rows) + 1)))
    if isinstance(classes, str):
        return tuple(read_classes_file(source, classes))
    return tuple(classes)
