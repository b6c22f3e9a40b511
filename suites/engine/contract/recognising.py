"""What a suite says of a stranger's folder or file: whether it is data of its kind, and how to train on it."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from framework.errors import DataError, PaddockError
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import Part
from suites.engine.data.intake.naming import in_order
from suites.engine.data.skipping import OtherKindError, SetError
from suites.engine.data.sources import open_set
from suites.engine.names import listing
from suites.engine.registry import REGISTRY, load_suites, suite_names

# Names that people give to the folders and lists of a part.
PARTS = {
    "train": ("train", "training", "trainset", "train2017", "train2014"),
    "val": ("val", "valid", "validation", "dev", "eval", "val2017", "val2014"),
    "test": ("test", "testing", "testset", "test2017"),
}

UNLABELLED = frozenset({"unsup", "unsupervised", "unlabeled", "unlabelled"})


@dataclass(frozen=True)
class Recognised:
    """What a folder or file is taken for.

    Attributes:
        what: a few words and counts, such as "Pascal VOC: 164 annotations in annotations/".
        config: the name of a shipped config that trains on it.
        overrides: `path=value` texts for it.
        certainty: 0 to 100; where several suites know the data, the highest is taken.
    """

    what: str
    config: str
    overrides: tuple[str, ...]
    certainty: int

    def command(self) -> str:
        """The command that trains on it."""
        options = [word for each in self.overrides for word in ("-o", each)]
        return shlex.join(["paddock", "train", self.config, *options])


@dataclass(frozen=True)
class Answers:
    """What all suites say of a folder or file.

    Attributes:
        found: what it may be, the most certain first.
        refused: why suites whose kind it seems to be cannot read it, each reason once.
        other: why it is of no suite's kind, where a suite can tell.
    """

    found: list[Recognised]
    refused: list[str]
    other: list[str]


ROLE = "recogniser"  # a suite has one at most
Recogniser = Callable[[Path], Recognised | None]


class Wrapped(Protocol):
    """A recogniser of files with some endings, and of folders and zips; None for what it does not look at.

    Called, it answers None for data of another kind too; `told` raises the reason, an OtherKindError.
    """

    told: Recogniser

    def __call__(self, path: Path, /) -> Recognised | None:
        """What a path is taken for, None for data of another kind."""


def recogniser(files: Sequence[str] = (), *, folders: bool = True) -> Callable[[Recogniser], Wrapped]:
    """Wraps what says of a stranger's data whether they are of a suite's kind.

    It returns None, or raises an OtherKindError, for data of another kind. Any other PaddockError says why data that
    seem to be of its kind cannot be read; it is shown where no suite can read them.

    Args:
        files: endings of files that it looks at.
        folders: whether it looks at folders and zips.
    """

    def wrap(look: Recogniser) -> Wrapped:
        def told(path: Path) -> Recognised | None:
            inside = path.is_dir() or path.suffix.lower() == ".zip"
            if not (folders if inside else path.suffix.lower() in files):
                return None
            try:
                return look(path)
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None

        @functools.wraps(look)
        def recognise(path: Path) -> Recognised | None:
            try:
                return told(path)
            except OtherKindError:
                return None

        found = cast(Wrapped, recognise)
        found.told = told
        return found

    return wrap


def recognise(path: Path) -> Answers:
    """What all suites say of a folder or file."""
    found, refused, other = [], [], []
    for recogniser in _recognisers():
        try:
            found.append(recogniser.told(path))
        except OtherKindError as error:
            other.append(str(error))
        except PaddockError as error:
            refused.append(str(error))
    known = sorted((each for each in found if each is not None), key=lambda each: -each.certainty)
    return Answers(known, list(dict.fromkeys(refused)), list(dict.fromkeys(other)))


def _recognisers() -> list[Wrapped]:
    for suite in suite_names():
        with contextlib.suppress(ImportError):  # of a library that only this suite needs
            load_suites([suite])
    views = [REGISTRY.seen_by(suite) for suite in REGISTRY.suites()]
    found: list[Any] = [view.get(ROLE, name) for view in views for name in view.names(ROLE)]
    return found


def classes_in(path: Path) -> tuple[Source, list[str], str]:
    """Of a folder or zip with a folder for each class: it, these folders, and how it is divided, in words."""
    source = open_set(path)
    inside = class_parts(source).get("train", "")
    said = "in parts for training and evaluation" if inside else "without parts, so every fifth is for evaluation"
    return source, [f"{inside}/{name}".lstrip("/") for name in filled_folders(source, inside)], said


def part_of(name: str) -> str | None:
    """The part that a folder or list of this name is, "train", "val" or "test"; None for none."""
    plain = name.lower()
    found = (part for part, names in PARTS.items() if plain in names)
    return next(found, None)


def part_in(name: str) -> str | None:
    """As `part_of`, of a word within a name such as `instances_train2017` or `dev.tsv`."""
    words = re.findall(r"[a-z]+(?:20(?:14|17))?", name.lower())
    return next(filter(None, map(part_of, words)), None)


def part_folders(source: Source, folder: str = "") -> dict[str, str]:
    """The folders of parts that lie in a folder, by part; empty unless there is one to train on."""
    found: dict[str, str] = {}
    for name in in_order(source.folders(folder)):
        part = part_of(name)
        if part is not None:
            found.setdefault(part, f"{folder}/{name}" if folder else name)
    return found if "train" in found else {}


def class_parts(source: Source) -> dict[str, str]:
    """Folders of parts that hold folders of classes, by part; empty where the folders are classes themselves.

    Where other folders lie beside them, they are parts if they hold the classes of training and nothing else.

    Raises:
        OtherKindError: all folders are named as parts, and hold files without folders of classes.
    """
    found = part_folders(source)
    inside = {part: filled_folders(source, folder) for part, folder in found.items()}
    if len(found) > 1 and not any(inside.values()) and set(filled_folders(source)) == set(found.values()):
        raise OtherKindError(f"{source.root}: the folders {listing(found.values())} hold no folders of classes")
    if len(found) < 2 or not all(inside.values()):
        return {}
    others = set(filled_folders(source)) - set(found.values())
    alike = all(set(names) <= set(inside["train"]) and not source.names(found[part]) for part, names in inside.items())
    if others and not alike:
        return {}
    for name in others:
        source.passed.note("folders beside those of parts", name)
    return found


def filled_folders(source: Source, folder: str = "") -> list[str]:
    """Names of the folders in a folder that hold files with labels; the others are noted as passed over."""
    names = labelled_folders(source, folder)
    filled = [name for name in names if source.below(f"{folder}/{name}" if folder else name)]
    for name in names:
        if name not in filled:
            source.passed.note("empty folders", f"{folder}/{name}" if folder else name)
    return filled


def labelled_folders(source: Source, folder: str = "") -> list[str]:
    """Names of the folders in a folder but those of data without labels, such as IMDB's `unsup`, which are noted."""
    found = []
    for name in source.folders(folder):
        if name.lower() in UNLABELLED:
            source.passed.note("folders of unlabelled data", f"{folder}/{name}" if folder else name)
        else:
            found.append(name)
    return found


def class_folders(source: Source, part: Part, classes: Sequence[str] | None = None) -> tuple[str, list[str], bool]:
    """Where the folders of classes lie that a part is read from.

    Args:
        source: a folder with one folder for each class, or with folders of parts that hold these.
        part: "train" or "val", for which a folder `test` is taken where there is no other.
        classes: names in label order; None for the folders of training, in order.

    Returns:
        The folder, "" for the root; the classes; and whether there are no parts, so that the set is to be divided.

    Raises:
        SetError: a folder is none of the classes.
    """
    parts = class_parts(source)
    folder = (parts["train"] if part == "train" else parts.get("val") or parts["test"]) if parts else ""
    names = list(classes) if classes is not None else filled_folders(source, parts.get("train", ""))
    strange = [name for name in filled_folders(source, folder) if name not in names]
    if strange:
        raise SetError(f"{source.root}: the folder {strange[0]} is none of the classes {listing(names)}")
    return folder, names, not parts
