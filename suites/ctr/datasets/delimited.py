"""Rows of delimited text files: CSV, Criteo's TSV, anything with a delimiter."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framework.errors import ConfigError, DataError
from suites.ctr.datasets.contents import content
from suites.ctr.encoding import Cell, RawRows
from suites.ctr.schema import Format

_FIELD_BYTES = 1 << 24  # of one value; a quote that is never closed makes one of the rest of the file


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
    """Rows of one or more files: cells by column, and which file and line each is of."""

    names: list[str]
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    file_of: list[int] = field(default_factory=list)
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
    )


def gathered_values(cells: Iterable[Cell], missing: Container[str]) -> list[str]:
    """Values that stand in columns side by side, as one list; places that hold none are padding."""
    return [cell for cell in cells if isinstance(cell, str) and cell not in missing]


def _read_one(path: str, number: int, form: Format, found: _Collected) -> None:
    rows = _cells(path, form)
    if form.header is True or (form.header == "first" and number == 0):
        line, header = next(rows, (0, []))
        if not header:
            raise DataError(f"{path}: the file is empty; expected a line with the names of the columns")
        if not found.names:
            found.names += header
        elif header != found.names:
            raise DataError(
                f"{path}:{line}: its columns are {', '.join(header)}; expected are {', '.join(found.names)}"
            )
    for line, cells in rows:
        if len(cells) != len(found.names):
            found.wrong.append(f"{path}:{line}: has {len(cells)} columns but there are {len(found.names)}")
            continue
        found.rows.append(cells)
        found.lines.append(line)
        found.file_of.append(number)


def _cells(path: str, form: Format) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of the rows that are not empty. Bytes that are no UTF-8 stay what they are."""
    text = content(path).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    csv.field_size_limit(_FIELD_BYTES)
    quoting: Any = csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=form.delimiter, quotechar=form.quote or None, quoting=quoting
    )
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}:{line}: cannot be cut into columns ({error}); is a quote left open?") from None
        if cells is None:
            return
        if cells and cells != [""]:
            yield line, [cell.strip() for cell in cells] if form.strip else cells
