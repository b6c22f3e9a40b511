"""Files from outside, read within their limit of bytes: one that is larger is refused before it is in memory."""

from __future__ import annotations

import json
import os
from typing import Any

from framework import limits
from framework.errors import CheckpointError, PaddockError

_PIECE = 1 << 20  # bytes, read at a time where a file does not say its size


def read_bytes(
    path: os.PathLike[str] | str,
    limit: str = "text_bytes",
    error: type[PaddockError] = CheckpointError,
    *,
    what: str = "",
) -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
        limit: the name of the limit that it is under; see `framework.limits.Limits`.
        error: raised where it is larger, also where that shows while it is read (a pipe, a file that grows).
        what: the file for messages; by default its path.

    Raises:
        OSError: it cannot be read.
    """
    message, parts, found = f"{what or path}: it has too many bytes", [], 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        limits.check(limit, size, message, error)
        while part := file.read(max(size - found, 0) or _PIECE):
            parts.append(part)
            found += len(part)
            limits.check(limit, found, message, error)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(
    path: os.PathLike[str] | str, limit: str = "text_bytes", error: type[PaddockError] = CheckpointError
) -> str:
    """The text of a UTF-8 file; raises as `read_bytes` does, and UnicodeDecodeError, a ValueError."""
    return read_bytes(path, limit, error).decode("utf-8")


def read_json(
    path: os.PathLike[str] | str, limit: str = "text_bytes", error: type[PaddockError] = CheckpointError
) -> Any:
    """The value in a JSON file; raises as `read_bytes`, and ValueError where it is none or nested too deep."""
    try:
        return json.loads(read_bytes(path, limit, error))
    except RecursionError:
        raise ValueError("nested too deeply") from None
