"""What readers of pictures with annotations share: which files are pictures, lists of classes, parts held out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import copies_of, divided
from suites.engine.data.intake.naming import ending, shown
from suites.engine.data.intake.texts import classes_in, names_in, numbered_lines, rows_of
from suites.engine.reporting import Tally
from suites.vision.pictures.images import IMAGE_SUFFIXES

_log = logging.getLogger(__name__)
_IMAGES = frozenset(IMAGE_SUFFIXES)
_NAMED = 5  # in a message
Row = TypeVar("Row")
CLASS_FILES = ("classes.txt", "labels.txt", "label_list.txt")
BESIDE = (".txt", ".xml", ".json", ".csv", ".yaml", ".yml", ".md")  # texts that belong to pictures


def read_lines(source: Source, name: str) -> list[str]:
    """The lines of a list of names that are not empty, without space around them; DataError where it is no text."""
    return names_in(source.read(name, "text_bytes"), f"{source.root}/{name}")


def read_list(
    source: Source, name: str, read: Callable[[str], Row], max_skipped: float = 0.0, left_out: Tally | None = None
) -> list[Row]:
    """What `read` makes of each line of a list file; see `rows_of`."""
    where = f"{source.root}/{name}"
    lines = numbered_lines(source.read(name), where, max_skipped=max_skipped, left_out=left_out)
    return rows_of(lines, where, read, max_skipped, left_out)


def pictures_below(source: Source, folder: str = "") -> list[str]:
    """Paths of the pictures in a folder and below, relative to it, in order; what is none is noted in `passed`."""
    return source.files(folder, IMAGE_SUFFIXES, BESIDE)


def read_classes_file(source: Source, name: str) -> list[str]:
    """The classes that a file lists, a line each; DataError for one that is no text, or has a name twice."""
    return classes_in(source.read(name, "text_bytes"), f"{source.root}/{name}")


def listed_file(source: Source, name: str, what: str = "image") -> str:
    """The file that a list means by a name; DataError, which says where it was looked for, if there is none."""
    found = source.find(name)
    if found is None:
        raise DataError(f"the {what} {name} is missing")
    return found


def listed_classes(source: Source) -> list[str] | None:
    """The classes that the first class file in the root lists, if there is one."""
    names = source.names()
    return next((read_classes_file(source, file) for file in CLASS_FILES if file in names), None)


def held_out(
    source: Source,
    names: Sequence[str],
    split: str | None,
    holdout: int,
    who: str,
    pictures: Sequence[str] | None = None,
) -> list[str]:
    """Of names in order, every `holdout`-th for the split "val", the others for "train"; copies stay together.

    Args:
        source: where the files lie.
        names: of the samples.
        split: "train" or "val".
        holdout: 2 or more.
        who: asks, for messages.
        pictures: their files; by default the names.

    Raises:
        AttributeValueError: `holdout` is below 2 or the split another.
    """
    return divided(names, split, holdout, who, copies_of(source, names if pictures is None else pictures))


def say_shared(what: str, pairs: Iterable[tuple[str, str | None]], noun: str) -> None:
    """Logs how many annotations belong to several pictures, as those of `1.jpg` and `1.png`, or `1.JPG`, do.

    Args:
        what: the set.
        pairs: (picture, its annotation or None).
        noun: what annotations are called.
    """
    owners: dict[str, list[str]] = {}
    for picture, annotation in pairs:
        if annotation is not None:
            owners.setdefault(annotation, []).append(picture)
    shared = [", ".join(map(shown, pictures)) for pictures in owners.values() if len(pictures) > 1]
    if shared:
        named = "; ".join(shared[:_NAMED]) + (" ..." if len(shared) > _NAMED else "")
        _log.warning("%s: %d %s belong to several pictures of one name: %s", what, len(shared), noun, named)


def flag(value: object, who: str) -> bool:
    """What a mark such as `iscrowd` says, as a number, a truth value or a text; DataError where it says neither."""
    word = str(value).strip().lower() if isinstance(value, (str, int, float)) else ""
    if word in ("0", "0.0", "false", "no", ""):
        return False
    if word in ("1", "1.0", "true", "yes"):
        return True
    raise DataError(f"{who} is {value!r}; it must be 0 or 1")


def is_image(name: str) -> bool:
    """Whether a file has the ending of a picture."""
    return ending(name) in _IMAGES
