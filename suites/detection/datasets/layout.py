"""What readers of several formats share: pictures without their annotations, sizes by header, lists of classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from framework.errors import AttributeValueError, DataError
from suites.engine.names import did_you_mean
from suites.engine.sources import Source
from suites.vision.images import IMAGE_SUFFIXES, decode_image

CLASS_FILES = ("classes.txt", "labels.txt", "label_list.txt")


def read_lines(source: Source, name: str) -> list[str]:
    """The lines of a text file that are not empty, without space around them."""
    text = source.read(name).decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def listed_classes(source: Source) -> list[str] | None:
    """The classes that the first class file in the root lists, if there is one."""
    names = source.names()
    return next((read_lines(source, file) for file in CLASS_FILES if file in names), None)


def held_out(names: Sequence[str], split: str | None, holdout: int, who: str) -> list[str]:
    """Of names in order, every `holdout`-th for the split "val", the others for "train".

    Raises:
        AttributeValueError: `holdout` is below 2 or the split another.
    """
    if split not in ("train", "val") or holdout < 2:
        raise AttributeValueError(
            f"{who}: holdout is {holdout} and split {split!r}; with holdout, at least 2, the split is train or val"
        )
    return [name for at, name in enumerate(names) if (at % holdout == holdout - 1) == (split == "val")]


def is_image(name: str) -> bool:
    """Whether a file has the ending of a picture."""
    return PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES


def size_of(source: Source, name: str) -> tuple[int, int]:
    """(H, W) of a picture as it is shown, so with the EXIF orientation applied."""
    height, width = decode_image(source.read(name), f"{source.root}/{name}").shape[:2]
    return height, width


class ClassTable:
    """Numbers of class names.

    Args:
        names: K names.
        skip_unknown: other classes are left out and counted in `unknown`, in place of an error.
    """

    def __init__(self, names: Sequence[str], skip_unknown: bool) -> None:
        self.names = list(names)
        self.unknown = 0
        self._labels = {name: label for label, name in enumerate(names)}
        self._skip = skip_unknown

    def label(self, name: str, where: str) -> int | None:
        """The number of a class; None for one that is left out.

        Raises:
            DataError: the class is none of them.
        """
        label = self._labels.get(name)
        if label is None:
            self._leave_out(f"{where}: class {name!r} is not among the {len(self.names)} classes", name)
        return label

    def _leave_out(self, problem: str, name: str) -> None:
        if not self._skip:
            listed, hint = ", ".join(self.names[:20]), did_you_mean(name, self._labels) or "."
            raise DataError(f'{problem} ({listed}){hint} Set unknown_class: "skip" to leave such boxes out')
        self.unknown += 1
