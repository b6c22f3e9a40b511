"""The bytes of log files, whatever they are packed in."""

from __future__ import annotations

from pathlib import Path

from framework.data.logs.inflate import compression, inflated
from framework.errors import DataError
from framework.outside import open_file
from suites.engine.data.sources import find_data, read_file


def content(path: str) -> bytes:
    """All bytes of a file, inflated where it ends in `.gz` or `.zst`. It may lie in a zip.

    Raises:
        DataError: it cannot be read, is damaged, is compressed inside of a zip, or grew while it was read.
    """
    found = find_data(path)
    if found.suffix.lower() not in (".gz", ".zst", ".zstd"):
        data = read_file(path, "data_bytes")
        if found.is_file() and found.stat().st_size != len(data):
            raise DataError(f"{path}: it changed while it was read; wait until it is complete")
        return data
    if compression(found) == "zip":
        raise DataError(f"{path}: a compressed file in a zip is not read; unpack the zip")
    return b"".join(inflated(found))


def head(path: Path, count: int) -> bytes:
    """The first bytes of a file, at least `count` of them where it has so many, inflated as `content` does."""
    if compression(path) is None:
        try:
            with open_file(path, None, DataError) as file:
                return file.read(count)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    parts, size = [], 0
    for part in inflated(path):
        parts.append(part)
        size += len(part)
        if size >= count:
            break
    return b"".join(parts)
