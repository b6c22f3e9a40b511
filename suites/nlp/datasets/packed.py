"""Text files that may be compressed by gzip, as parallel corpora come."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from framework import limits
from framework.data.logs.inflate import gzip_blocks
from framework.errors import ConfigError, DataError
from suites.engine.data.intake.naming import ending
from suites.engine.data.intake.texts import numbered_lines
from suites.engine.data.sources import read_file
from suites.engine.names import listing
from suites.nlp.datasets.found import TABLES, table_of


def read_packed(path: str) -> bytes:
    """The bytes of a file, also inside a zip; of one that ends in `.gz` what it holds.

    Raises DataError for a damaged file, and one that inflates beyond its limits.
    """
    data = read_file(path, "data_bytes")
    if not path.lower().endswith(".gz"):
        return data
    parts, left = [], limits.current().data_bytes
    for block in gzip_blocks(io.BytesIO(data), Path(path)):
        parts.append(block)
        left -= len(block)
        if left < 0:
            raise DataError(f"{path}: it inflates to more than is allowed. {limits.how_to_raise('data_bytes')}")
    return b"".join(parts)


def unpacked_name(path: str) -> str:
    """The path without `.gz`, whose ending says what is in it."""
    return path[:-3] if path.lower().endswith(".gz") else path


def texts_in(path: str, columns: Sequence[str] = ()) -> Iterator[str]:
    """The lines of a text file; of a table the cells of `columns`, or of all where none is named.

    Raises ConfigError for a column that is not there.
    """
    data, name = read_packed(path), unpacked_name(path)
    if ending(name) not in TABLES:
        if columns:
            raise ConfigError(f"{path}: is no table, so it has no columns; take --column away")
        yield from (line for _, line in numbered_lines(data, path))
        return
    table = table_of(data, name)
    for column in columns:
        if column not in table.names:
            raise ConfigError(f"{path}: has no column '{column}'; there are {listing(table.names)}")
    for column in columns or table.names:
        yield from table.column(column)
