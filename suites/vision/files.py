"""What readers of pictures with annotations share: which files are pictures, lists of classes, parts held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from framework.errors import AttributeValueError
from suites.engine.sources import Source
from suites.vision.images import IMAGE_SUFFIXES

CLASS_FILES = ("classes.txt", "labels.txt", "label_list.txt")


def read_lines(source: Source, name: str) -> list[str]:
    """The lines of a text file that are not empty, without space around them."""
    text = source.read(name, "text_bytes").decode("utf-8", "replace")
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
