"""Text files that may be compressed by gzip, as large sets come."""

from __future__ import annotations

import io
from pathlib import Path

from framework import limits
from framework.data.logs.inflate import gzip_blocks
from framework.errors import DataError
from suites.engine.data.sources import read_file


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
