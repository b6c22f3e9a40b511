"""What readers of pictures with annotations share: which files are pictures, lists of classes, parts held out."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import SetError, usable
from suites.engine.data.sources import Source
from suites.engine.reporting import Tally
from suites.vision.images import IMAGE_SUFFIXES

Row = TypeVar("Row")
CLASS_FILES = ("classes.txt", "labels.txt", "label_list.txt")


def read_lines(source: Source, name: str) -> list[str]:
    """The lines of a text file that are not empty, without space around them."""
    text = source.read(name, "text_bytes").decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_list(
    source: Source, name: str, read: Callable[[str], Row], max_skipped: float = 0.0, left_out: Tally | None = None
) -> list[Row]:
    """What `read` makes of each line of a list file; it raises a DataError, without the place, for one that is wrong.

    Up to `max_skipped` of the lines may be wrong: they are left out, logged and noted in `left_out`.

    Raises:
        DataError: The file cannot be read, is empty, or more lines are wrong; the message names file and line.
    """
    where = f"{source.root}/{name}"
    lines = enumerate(source.read(name).removeprefix(codecs.BOM_UTF8).splitlines(), start=1)

    def made(row: tuple[int, bytes]) -> Row:
        number, line = row
        try:
            return read(line.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise DataError(f"{where}:{number}: is no UTF-8 text ({error.reason}); convert the file") from None
        except SetError:
            raise
        except DataError as error:
            raise DataError(f"{where}:{number}: {error}") from None

    full = [(number, line) for number, line in lines if line.strip()]
    found = [row for _, row in usable(where, full, made, max_skipped, left_out, "lines")]
    if not found:
        raise DataError(f"{where}: the list is empty")
    return found


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
