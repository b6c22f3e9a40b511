"""Text files that may be compressed by gzip, as parallel corpora come."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from framework import limits
from framework.errors import ConfigError, DataError
from suites.engine.data.intake.naming import ending
from suites.engine.data.intake.texts import numbered_lines
from suites.engine.data.sources import read_file
from suites.engine.names import listing
from suites.nlp.datasets.found import TABLES, table_of

_FREE = 64 << 20  # bytes that any file may inflate to
_GROWTH = 64  # times its own size: text compresses to a tenth, a bomb to a thousandth


def read_packed(path: str) -> bytes:
    """The bytes of a file, also inside a zip; of one that ends in `.gz` what it holds.

    Raises DataError for a damaged file, and one that inflates beyond its limits.
    """
    data = read_file(path, "data_bytes")
    if not path.lower().endswith(".gz"):
        return data
    most = min(limits.current().data_bytes, max(_FREE, _GROWTH * len(data)))
    parts, left = [], most
    try:
        while data:
            inflater = zlib.decompressobj(31)
            parts.append(inflater.decompress(data, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise DataError(
                    f"{path}: inflates to more than {most} bytes, {_GROWTH} times its size; unpack it first"
                )
            if not inflater.eof:
                raise DataError(f"{path}: the gzip file is cut off")
            data = inflater.unused_data  # a file may have several members
    except zlib.error as error:
        raise DataError(f"{path}: is no gzip file ({error})") from None
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
