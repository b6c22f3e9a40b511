"""Files from outside: regular ones alone, read within their limit of bytes; a larger one is refused before it is read.

A device or a pipe has no end, and a pipe without a writer waits for one: `open_file` opens neither.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO

from framework import limits
from framework.errors import CheckpointError, PaddockError
from framework.system.files import READING

_PIECE = 1 << 20  # bytes, read at a time where a file does not say its size
_POINTER, _MOST_OF_A_POINTER = b"version https://git-lfs.github.com/spec/", 1024  # bytes
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


# What is said of an address where a file or folder is meant.
DOWNLOAD_IT = "is an address, not a file or folder of this machine; download it, and name what that gives"
_ADDRESS = re.compile(r"(https?|ftp|s3|gs|abfss?|hdfs):/", re.IGNORECASE)


def open_file(
    path: os.PathLike[str] | str,
    limit: str | None,
    error: type[PaddockError] = CheckpointError,
    *,
    what: str = "",
) -> BinaryIO:
    """A regular file, open for reading bytes; what is read of it counts against no limit, but its size did.

    Args:
        path: of the file; links are followed.
        limit: the name of the limit that its size is under; see `framework.limits.Limits`. None where only parts of it
            are read, each under a limit of its own.
        error: raised where it is larger, or is a folder, a pipe, a device or a socket, or where Git LFS has left a
            pointer in its place, or where the path is an address of the web and no file.
        what: the file for messages; by default its path.

    Raises:
        OSError: it cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDONLY | READING)
    except FileNotFoundError:
        if is_address(path):
            raise error(f"{what or path}: {DOWNLOAD_IT}") from None
        raise
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(about.st_mode)), "something else")
            raise error(f"{what or path}: is {kind}, not a file")
        if limit is not None:
            limits.check(limit, about.st_size, f"{what or path}: it has too many bytes", error)
        if about.st_size < _MOST_OF_A_POINTER:
            refuse_pointer(os.read(fd, len(_POINTER)), f"{what or path}", error)
            os.lseek(fd, 0, os.SEEK_SET)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def is_address(path: os.PathLike[str] | str) -> bool:
    """Whether a path begins as an address of the web or of a store does, whose slashes a Path makes one."""
    return _ADDRESS.match(os.fspath(path)) is not None


def told_missing(path: os.PathLike[str] | str, what: str) -> str:
    """What an error says of a path that leads nowhere: `what`, or that it is an address."""
    return f"{path}: {DOWNLOAD_IT if is_address(path) else what}"


def refuse_pointer(start: bytes, what: str, error: type[PaddockError]) -> None:
    """Raises `error` where a file of this start is what Git LFS left in its place; what: the file."""
    if start.startswith(_POINTER):
        raise error(f"{what}: is a pointer of Git LFS, not the file; run `git lfs pull` for it")


def check_file(
    path: os.PathLike[str] | str, limit: str, error: type[PaddockError] = CheckpointError, *, what: str = ""
) -> int:
    """The size of a regular file that a library will open by its path; raises as `open_file` does."""
    with open_file(path, limit, error, what=what) as file:
        return os.fstat(file.fileno()).st_size


def expanded(path: os.PathLike[str] | str) -> Path:
    """The path; where it leads nowhere as it is written, with `~` and `$HOME` as shells have them."""
    written = Path(path)
    if written.exists() or (not str(written).startswith("~") and "$" not in str(written)):
        return written
    return Path(os.path.expandvars(os.path.expanduser(written)))


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
        error: raised where it is no regular file, or larger, also where that shows while it is read (it grows).
        what: the file for messages; by default its path.

    Raises:
        OSError: it cannot be read.
    """
    message, parts, found = f"{what or path}: it has too many bytes", [], 0
    with open_file(path, limit, error, what=what) as file:
        size = os.fstat(file.fileno()).st_size
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


def read_json_object(path: os.PathLike[str] | str) -> dict[str, Any]:
    """The fields of a JSON file that describes a checkpoint; CheckpointError where it is no such file."""
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: it cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: it holds a {type(found).__name__}; it must be a JSON object")
    return found
