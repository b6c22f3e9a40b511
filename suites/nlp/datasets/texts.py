"""Texts: labelled texts as people have them; the format, the columns and the parts are found.

A CSV, TSV, JSON or JSON-lines file; a folder or zip with such a file for each part; or a folder for each class with a
text file for each text.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from framework.errors import ConfigError, DataError
from suites.engine.contract.recognising import Recognised, class_folders, classes_in, part_in, recogniser
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import EVERY, Part, divided
from suites.engine.data.intake.naming import ending, stem
from suites.engine.data.intake.texts import decoded
from suites.engine.data.skipping import MAX_SKIPPED, OtherKindError, usable
from suites.engine.data.sources import find_data, open_set
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import ENCODING, Labelled
from suites.nlp.datasets.found import TABLES, Table, columns_of, is_missing, read_table
from suites.nlp.datasets.packed import unpacked_name
from suites.nlp.datasets.rows import RowDataset

_log = logging.getLogger(__name__)
_SURELY = {"text", "text_a", "sentence", "review", "comment", "tweet", "utterance"}  # names of columns of texts
_LONG = 12  # characters that texts have on average, below which a table is for other suites


@dataclass(frozen=True)
class _Found:
    """Files of a set: by part, under "" one without parts; folders of classes where there are no files."""

    root: str
    files: dict[str, str]
    source: Source | None = None


@register("dataset")
class Texts(RowDataset):
    """Labelled texts of a file or folder, whose format and columns are found and said in the log.

    Args:
        root: a CSV, TSV, JSON or JSON-lines file; a folder or zip with files named train and val (or dev, test); or one
            with a folder for each class that holds .txt files, in folders of parts or not.
        part: "train" or "val". Without parts every fifth text is "val"; equal texts stay together.
        text: column of the text; null to find it.
        label: column of the label; null to find it.
        pair: column of the second text; null for single texts.
        max_skipped: share of the rows that may be wrong or lack a text or a label; they are left out and logged.
        encoding: of the files where no byte-order mark says it; null for UTF-8.

    Attributes:
        class_names: all labels of the set, sorted.
    """

    def __init__(
        self,
        root: str,
        part: Part = "train",
        text: str | None = None,
        label: str | None = None,
        pair: str | None = None,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        found = _find(root)
        if found.source is not None:
            if (text, label, pair) != (None, None, None):
                raise ConfigError(f"Texts {root}: text, label and pair name columns, and there are folders of texts")
            rows, whole = _of_folders(found.source, part, max_skipped, encoding, self.left_out)
        else:
            first = read_table(found.files.get("train") or found.files[""], encoding)
            columns = columns_of(first, text, label, pair)
            whole = "train" not in found.files
            path = first.path if whole or part == "train" else found.files.get("val") or found.files["test"]
            table = first if path == first.path else read_table(path, encoding)
            rows = _labelled(table, columns.text, columns.label, columns.pair, max_skipped, self.left_out)
        examples = _divided(rows, part) if whole else rows.examples
        if rows.examples and not examples:
            count = len({(example.text, example.pair) for _, example in rows.examples})
            raise DataError(
                f"Texts {root}: no text is for the part '{part}': every fifth of the different ones is for evaluation, "
                f"and there are {count}; add some, or give files named train and val"
            )
        self.class_names = sorted({example.label for _, example in examples})
        places, texts = [place for place, _ in examples], [example for _, example in examples]
        self._hold(root, texts, places, [example.label for example in texts])

    @property
    def num_classes(self) -> int:
        """Number of classes of this part."""
        return len(self.class_names)

    def name_of(self, index: int) -> str:
        """File and line of an example."""
        return self.places[index]


class _Rows(NamedTuple):
    """Rows that can be used.

    Attributes:
        examples: (place, example) of each.
        numbers: of each, among all rows.
        every: how many rows there are, with those that were left out.
    """

    examples: list[tuple[str, Labelled]]
    numbers: list[int]
    every: int


@register("recogniser", "nlp")
@recogniser((*TABLES, ".txt"))
def recognise(path: Path) -> Recognised | None:
    """What a file or folder of labelled texts is, and the command that trains on it."""
    found = _find(str(path))
    what = _said_of_folders(path) if found.source is not None else _said_of_table(found)
    return Recognised(what, "nlp/classify", (f"data.root={path}",), 80)


def _said_of_table(found: _Found) -> str:
    table = read_table(found.files.get("train") or found.files[""])
    sure = [name for name in table.names if name.lower() in _SURELY and _are_words(table.column(name))]
    if not sure and not any(_are_sentences(table.column(name)) for name in table.names):
        raise OtherKindError(f"{table.path}: no column holds sentences")
    columns = columns_of(table, None, None)
    texts, labels = table.column(columns.text), set(table.column(columns.label))
    if columns.text not in sure and not _are_sentences(texts):
        raise OtherKindError(f"{table.path}: column {columns.text} holds no sentences")
    return (
        f"{len(texts)} labelled texts: column {columns.text} is the text, column {columns.label} the label "
        f"({len(labels)} different), {_said('train' in found.files)}"
    )


def _are_words(texts: Sequence[str]) -> bool:
    """Whether most texts, however short, hold a letter."""
    return sum(any(map(str.isalpha, text)) for text in texts) > 0.5 * len(texts)


def _are_sentences(texts: Sequence[str]) -> bool:
    """Whether texts are long, and most have several words, or are in a script without spaces between them."""
    if not texts or sum(map(len, texts)) < _LONG * len(texts):
        return False
    several = sum(len(text.split()) > 2 or any(ord(c) > 0x2E80 for c in text) for text in texts)
    return several > 0.5 * len(texts)


def _said(parts: bool) -> str:
    return "in parts for training and evaluation" if parts else "without parts, so every fifth is for evaluation"


def _find(root: str) -> _Found:
    """The files of a set."""
    path = find_data(root)
    if path.is_file() and path.suffix.lower() != ".zip":
        if ending(unpacked_name(path.name)) not in (*TABLES, ".txt"):
            raise DataError(f"Texts {root}: takes {listing(TABLES)} files, also as .gz, folders and zips")
        return _Found(root, {"": str(path)})
    source = open_set(root, tables=(*TABLES, ".gz"))
    tables = [name for name in source.names() if ending(unpacked_name(name)) in TABLES]
    parts: dict[str, str] = {}
    for name in tables:
        part = part_in(stem(unpacked_name(name)))
        if part is not None:
            parts.setdefault(part, f"{source.root}/{name}")
    if "train" in parts and len(parts) > 1:
        return _Found(root, parts)
    if "train" in parts or len(tables) == 1:
        return _Found(root, {"": parts.get("train") or f"{source.root}/{tables[0]}"})
    if tables:
        raise DataError(
            f"Texts {root}: there are {listing(tables)}; name the one to train on train, or give one of them"
        )
    return _Found(root, {}, source)


def _text_files(source: Source, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in source.files(folder, (".txt",))]


def _of_folders(
    source: Source, part: Part, max_skipped: float, encoding: str | None, left_out: Tally
) -> tuple[_Rows, bool]:
    """The text files in the folders of classes, and whether they are to be divided."""
    folder, names, whole = class_folders(source, part)
    files = [(name, file) for name in names for file in _text_files(source, f"{folder}/{name}".lstrip("/"))]
    if not files:
        raise DataError(
            f"Texts {source.root}: no texts; expected {listing(TABLES)} files, or a folder for each class with .txt "
            f"files; found the folders: {listing(names[:8])}"
        )

    def read(row: tuple[int, tuple[str, str]]) -> Labelled:
        label, file = row[1]
        where = f"{source.root}/{file}"
        text = decoded(source.read(file, "text_bytes"), where, encoding, ENCODING).strip()
        if not text:
            raise DataError(f"{where}: the text is empty")
        return Labelled(text, label=label)

    made = usable(f"Texts {source.root}", list(enumerate(files)), read, max_skipped, left_out, "files")
    source.passed.say(f"Texts {source.root}")
    examples = [(f"{source.root}/{file}", example) for (_, (_, file)), example in made]
    return _Rows(examples, [number for (number, _), _ in made], len(files)), whole


def _labelled(table: Table, text: str, label: str, pair: str | None, max_skipped: float, left_out: Tally) -> _Rows:
    """The rows that have a text and a label."""
    for name in (text, label, *([pair] if pair else [])):
        if name not in table.names:
            raise DataError(f"{table.path}: has no column '{name}', which the file to train on has")
    places = {
        role: table.names.index(name) for role, name in (("text", text), ("label", label), ("pair", pair)) if name
    }
    every: list[tuple[int, Sequence[str | None] | None]] = [*table.rows, *((line, None) for line in table.wrong)]
    every.sort(key=lambda row: row[0])

    def read(row: tuple[int, tuple[int, Sequence[str | None] | None]]) -> Labelled:
        line, cells = row[1]
        if cells is None:
            raise DataError(table.wrong[line])
        found = {role: cells[at] for role, at in places.items()}
        lacks = [
            role for role, cell in found.items() if (is_missing(cell) if role == "label" else not (cell or "").strip())
        ]
        if lacks:
            raise DataError(f"{table.path}:{line}: its {lacks[0]} is missing")
        made: dict[str, Any] = {
            role: str(cell).strip() if role == "label" else str(cell) for role, cell in found.items()
        }
        return Labelled(**made)

    made = usable(f"Texts {table.path}", list(enumerate(every)), read, max_skipped, left_out)
    examples = [(f"{table.path}:{line}", example) for (_, (line, _)), example in made]
    return _Rows(examples, [number for (number, _), _ in made], len(every))


def _divided(rows: _Rows, part: Part) -> list[tuple[str, Labelled]]:
    """Every fifth text for "val", equal texts together; a class that would be in "val" alone is for training.

    A row that was left out counts as one, so that it moves no other row to another part.
    """
    copies: list[Hashable] = [(example.text.strip(), example.pair) for _, example in rows.examples]
    by_number = dict(zip(rows.numbers, copies, strict=True))
    every = [by_number.get(number, number) for number in range(rows.every)]
    val = set(divided([str(number) for number in range(rows.every)], "val", EVERY, "Texts", every))
    is_val = [str(number) in val for number in rows.numbers]
    labels = [example.label for _, example in rows.examples]
    alone = set(labels) - {label for label, held in zip(labels, is_val, strict=True) if not held}
    if alone:
        _log.info("the classes %s have too few texts for evaluation; all are trained on", listing(sorted(alone)))
    moved = {key for key, label in zip(copies, labels, strict=True) if label in alone}
    held = [each and key not in moved for each, key in zip(is_val, copies, strict=True)]
    return [row for row, each in zip(rows.examples, held, strict=True) if each == (part == "val")]


def _said_of_folders(path: Path) -> str:
    source, folders, said = classes_in(path)
    filled = [count for folder in folders if (count := len(_text_files(source, folder)))]
    every = sum(len(source.below(folder)) - len(source.having(folder, (".txt", ""))) for folder in folders)
    if len(filled) < 2 or every > sum(filled):  # texts that lie beside pictures are labels of another suite
        raise OtherKindError(f"{path}: no folders of texts")
    return f"{sum(filled)} texts in {len(filled)} folders, one for each class, {said}"
