"""What every data set of generation offers, and the views of it that loaders draw from."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import FileTable, Source
from suites.engine.data.intake.passed import PassedOver
from suites.engine.data.skipping import SetError
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.generation.sample import Picture
from suites.vision.augmentation.pipeline import Augmented, Transform
from suites.vision.pictures.damaged import find_damaged
from suites.vision.pictures.images import decode_image

_log = logging.getLogger(__name__)
_LEAST = 2  # pictures of a kind, below which there is nothing to learn


class PictureSet(ABC):
    """Pictures by index; read-only, picklable, the same sample for the same index.

    Attributes:
        class_names: of the classes; one name where nobody asked for classes.
        passed: what lies among its files and is not read.
        is_compared_whole: whether drawn pictures are compared with the set as a whole, which may be what was learnt
            from; else a copy of a picture of training makes figures too good.
    """

    class_names: tuple[str, ...] = ("picture",)
    passed: PassedOver | None = None
    is_compared_whole: bool = False

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Picture:
        """Picture `index`; a DataError names a file that cannot be used."""

    @abstractmethod
    def name_of(self, index: int) -> str:
        """The file, or other name, of picture `index` for messages."""

    def skipped(self) -> Tally:
        """Pictures that were left out when the set was opened; none: a damaged one is an error when it is read."""
        return Tally()


register_role("dataset", PictureSet, doc="pictures of one kind, of two kinds, or in pairs")


class OneKind(PictureSet):
    """Pictures of one kind, with or without classes: for models that draw from noise or by class.

    Args:
        what: words for messages.
        source: where the files lie.
        names: the files.
        labels: the class of each; None for one class.
        class_names: K names.
    """

    def __init__(
        self,
        what: str,
        source: Source,
        names: Sequence[str],
        labels: Sequence[int] | None = None,
        class_names: Sequence[str] = ("picture",),
    ) -> None:
        self._files, self._labels = opened_files(what, source, names), labels
        self.class_names, self.passed = tuple(class_names), source.passed

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Picture:
        label = 0 if self._labels is None else self._labels[index]
        return Picture(image=read(self._files, index), label=label, number=index, name=self.name_of(index))

    def name_of(self, index: int) -> str:
        """The file."""
        return self._files.full_name(index)


class TwoKinds(PictureSet):
    """Pictures of two kinds without partners: for CycleGAN. Its length is that of the longer kind.

    Args:
        a, b: the kinds.
    """

    def __init__(self, a: OneKind, b: OneKind) -> None:
        self.a, self.b = a, b
        self.passed = a.passed

    def __len__(self) -> int:
        return max(len(self.a), len(self.b))

    def __getitem__(self, index: int) -> Picture:
        """Picture `index` of each kind; the shorter one begins again."""
        image, other = self.a[index % len(self.a)], self.b[index % len(self.b)]
        counts = index < len(self.a), index < len(self.b)
        return replace(image, other=other.image, number=index, counts=counts)

    def name_of(self, index: int) -> str:
        """Both files."""
        return f"{self.a.name_of(index % len(self.a))} {self.b.name_of(index % len(self.b))}"

    def swapped(self) -> TwoKinds:
        """The same with the kinds in each other's place."""
        return TwoKinds(self.b, self.a)


class Pairs(PictureSet):
    """Pictures with their partners, pixel for pixel: for pix2pix."""


class _View:
    """Two kinds, each picture changed by itself.

    Args:
        dataset: both kinds.
        transforms: of each picture.
    """

    def __init__(self, dataset: TwoKinds, transforms: Sequence[Transform]) -> None:
        self.dataset = dataset
        self._a, self._b = Augmented(dataset.a, transforms), Augmented(dataset.b, transforms)

    def __len__(self) -> int:
        return len(self.dataset)


class Unpaired(_View):
    """What training draws of two kinds: picture `index` of the first, any of the second."""

    def sample(self, index: int, rng: np.random.Generator) -> Picture:
        """Random choices come from `rng` alone."""
        image: Picture = self._a.sample(index % len(self._a), rng)
        at = int(rng.integers(len(self._b)))
        other: Picture = self._b.sample(at, rng)
        return replace(image, other=other.image, name=f"{image.name} {other.name}")

    def name_of(self, index: int) -> str:
        """Of the first kind; the second is drawn."""
        return self._a.name_of(index % len(self._a))


class Whole(_View):
    """An evaluation set of two kinds, in order."""

    def __getitem__(self, index: int) -> Picture:
        image, other = self._a[index % len(self._a)], self._b[index % len(self._b)]
        counts = index < len(self._a), index < len(self._b)
        picture: Picture = replace(image, other=other.image, number=index, counts=counts)
        return picture

    def name_of(self, index: int) -> str:
        """Both files."""
        return self.dataset.name_of(index)


def opened_files(what: str, source: Source, names: Sequence[str]) -> FileTable:
    """The files of one kind of picture, of which two are the least.

    Raises SetError for fewer: a network that sees one picture learns that picture.
    """
    if len(names) < _LEAST:
        found = "there are no pictures" if not names else f"there is one picture, {names[0]}"
        raise SetError(f"{what}: {found}; {_LEAST} are the least, and hundreds are usual")
    files = source.table(list(names))
    _log.info("%s: %d pictures", what, len(names))
    if source.passed is not None:
        source.passed.say(what)
    find_damaged(what, files)
    return files


def read(files: FileTable, index: int) -> np.ndarray:
    """Picture `index`, uint8 RGB [H, W, 3]; a DataError names one that cannot be read."""
    return decode_image(files.read(index), files.full_name(index))


def expect_equal(first: np.ndarray, second: np.ndarray, name: str, other: str) -> None:
    """Raises DataError where the two pictures of a pair are of different sizes."""
    if first.shape != second.shape:
        (h, w), (p, q) = first.shape[:2], second.shape[:2]
        raise DataError(
            f"{name} is {w}x{h} but its partner {other} is {q}x{p} (width x height); the pictures of a pair belong "
            "together pixel for pixel: bring both to one size"
        )
