"""Rows of delimited text files: CSV, Criteo's TSV, anything with a delimiter."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from framework.errors import ConfigError, DataError
from suites.ctr.datasets.contents import content
from suites.ctr.datasets.encoding import Cell, RawRows
from suites.ctr.schema import Format
from suites.engine.data.intake.tables import Dialect, Row, refuse_comments, rows_in
from suites.engine.data.intake.texts import decoded, encoding_of, lines_of

_OPTION = "format.encoding of the schema"


@dataclass(frozen=True)
class Lines:
    """What names a row: "log.csv:17".

    Attributes:
        paths: the files.
        file_of: place in `paths` of each row's file, int64 [N].
        lines: each row's line in it, from 1, int64 [N].
    """

    paths: tuple[str, ...]
    file_of: np.ndarray
    lines: np.ndarray

    def __call__(self, row: int) -> str:
        """The name of a row."""
        return f"{self.paths[self.file_of[row]]}:{self.lines[row]}"


@dataclass
class _Collected:
    """Rows of one or more files: cells by column, which file and line each is of, and its number among all rows."""

    names: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    file_of: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def read_delimited(paths: list[str], form: Format) -> RawRows:
    """The columns of files that are read one after the other.

    Headers, where there are several, must be alike.

    Raises:
        DataError: a file cannot be read, or its header is another one.
    """
    if not paths:
        raise ConfigError("ClickLog: files is empty; name at least one")
    found = _Collected(list(form.columns or ()))
    for number, path in enumerate(paths):
        _read_one(path, number, form, found)
    columns = list(zip(*found.rows, strict=True)) if found.rows else [() for _ in found.names]
    where = Lines(tuple(paths), np.array(found.file_of, np.int64), np.array(found.lines, np.int64))
    return RawRows(
        ", ".join(paths),
        dict(zip(found.names, columns, strict=True)),
        where,
        found.wrong,
        numbers=np.array(found.numbers, np.int64),
    )


def gathered_values(cells: Iterable[Cell], missing: Container[str]) -> list[str]:
    """Values that stand in columns side by side, as one list; places that hold none are padding."""
    return [cell for cell in cells if isinstance(cell, str) and cell not in missing]


def _read_one(path: str, number: int, form: Format, found: _Collected) -> None:
    rows = _rows(path, form)
    if form.header is True or (form.header == "first" and number == 0):
        first = next(rows, None)
        if first is None or first.wrong:
            why = first.wrong if first else "the file is empty"
            raise DataError(f"{path}: {why}; expected a line with the names of the columns")
        if not found.names:
            found.names += first.cells
        elif first.cells != found.names:
            raise DataError(
                f"{path}:{first.line}: its columns are {', '.join(first.cells)}; expected are {', '.join(found.names)}"
            )
    for row in rows:
        if row.wrong or len(row.cells) != len(found.names):
            why = row.wrong or f"has {len(row.cells)} columns but there are {len(found.names)}"
            found.wrong.append(f"{path}:{row.line}: {why}")
            continue
        found.numbers.append(len(found.rows) + len(found.wrong))
        found.rows.append(row.cells)
        found.lines.append(row.line)
        found.file_of.append(number)


def text_of(data: bytes, path: str, form: Format) -> str:
    """The text of a log. Of UTF-8, bytes that are none stay what they are, but for the line of names.

    Raises DataError for UTF-16 without a mark, for text that is not in the format's encoding, and for names that are no
    text.
    """
    found = encoding_of(data, form.encoding, path, _OPTION)
    if found.name != "utf-8":
        return decoded(data, path, form.encoding, _OPTION)
    text = data[found.mark :].decode("utf-8", "surrogateescape")
    if form.header:
        decoded(data[: (data + b"\n").index(b"\n")], path, None, _OPTION)
    return text


def dialect_of(form: Format) -> Dialect:
    """How the rows of a format are cut; values in memory may always hold ends of lines."""
    return Dialect(form.delimiter, form.quote, newlines=True, strip=form.strip)


def _rows(path: str, form: Format) -> Iterator[Row]:
    """The rows that are not empty."""
    lines = lines_of(text_of(content(path), path, form))
    if form.header:
        refuse_comments(lines, dialect_of(form), path)
    return rows_in(lines, dialect_of(form), len(form.columns) if form.columns else None)
