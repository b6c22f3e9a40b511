"""Rows of Parquet files through pyarrow (extra `logs`), as the texts that a CSV of the same table has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from framework.data.logs.parquet import open_parquet, read_group, text_array
from framework.errors import ConfigError, DataError
from suites.ctr.datasets.encoding import Cell, Numbered, RawRows
from suites.ctr.schema import Schema
from suites.engine.data.sources import find_data, is_there, places_tried


def read_parquet(paths: list[str], schema: Schema) -> RawRows:
    """The rows of files that are read one after the other.

    Raises:
        DataError: a file cannot be read or lacks a column.
    """
    if not paths:
        raise ConfigError("ClickLog: files is empty; name at least one")
    columns: dict[str, list[Cell]] = {}
    for path in paths:
        found = find_data(path)
        if not is_there(found):
            raise DataError(f"{path}: no such file; {places_tried(path)}")
        with open_parquet(found) as file, _whole(found):
            names = [name for name in file.schema_arrow.names if name in schema.columns()]
            parts = [read_group(file, Path(found), group, names) for group in range(file.num_row_groups)]
        if columns and set(columns) != set(names):
            raise DataError(f"{path}: its columns are {', '.join(names)}; expected are {', '.join(columns)}")
        for name in names:
            for part in parts:
                columns.setdefault(name, []).extend(_cells(part.column(name)))
    name = ", ".join(paths)
    return RawRows(name, columns, Numbered(f"{name}, row"))


def first_rows(path: Path, count: int, columns: Sequence[str]) -> list[dict[str, Cell]]:
    """The first rows of a file by column."""
    with open_parquet(path) as file, _whole(path):
        for batch in file.iter_batches(batch_size=count, columns=list(columns)):
            each = {name: _cells(batch.column(name)) for name in columns}
            return [{name: cells[i] for name, cells in each.items()} for i in range(batch.num_rows)]
    return []


def columns_of(path: Path) -> tuple[list[str], set[str]]:
    """The columns of a file, and those of them that hold lists."""
    with open_parquet(path) as file:
        found = file.schema_arrow
        return list(found.names), {field.name for field in found if hasattr(field.type, "value_type")}


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Inside, data that cannot be decoded is a DataError: pyarrow finds it when it reads, not when it opens a file."""
    try:
        yield
    except (OSError, ValueError) as error:  # ArrowException's kinds of damage are both, or one of them
        raise DataError(f"{path}: it cannot be read ({error})") from None


def _cells(column: Any) -> list[Cell]:
    array, lists = text_array(column)
    texts = [text or "" for text in array.to_pylist()]
    if lists is None:
        return list(texts)
    return [texts[a:b] for a, b in pairwise(lists.tolist())]
