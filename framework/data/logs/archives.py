"""Zips as folders of logs: `logs.zip/day_0.csv` is a member, `logs.zip` all of them. Nothing is unpacked."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from framework.errors import DataError

_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    RuntimeError,  # a member that needs a password
    NotImplementedError,  # a method of compression that zipfile lacks
    IndexError,  # an empty name
    lzma.LZMAError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


def split_zip(path: Path) -> tuple[Path, str]:
    """A path cut behind its first part that ends in `.zip`: the archive and what is named inside; "" for nothing."""
    for i, part in enumerate(path.parts):
        if part.lower().endswith(".zip"):
            return Path(*path.parts[: i + 1]), "/".join(path.parts[i + 1 :])
    return path, ""


def in_zip(path: Path) -> bool:
    """Whether a path leads to a zip, or into one."""
    archive, _ = split_zip(path)
    return archive.suffix.lower() == ".zip" and archive.is_file()


def members(archive: Path, pattern: str = "") -> list[Path]:
    """Paths of a zip's files that match a pattern, sorted; without one all but those of `__MACOSX` and hidden ones.

    A name that is no pattern, and a zip that cannot be read, are given as they are, for whoever opens them to say what
    is wrong.
    """
    if pattern and not is_pattern(pattern):
        return [archive / pattern]
    try:
        names = sorted(_infos(archive))
    except DataError:
        return [archive / pattern]
    wanted = PurePosixPath(pattern).parts
    return [archive / name for name in names if _matches(PurePosixPath(name).parts, wanted)]


def is_pattern(path: str | Path) -> bool:
    """Whether a name stands for those of several files."""
    return any(letter in str(path) for letter in "*?[")


def _matches(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not any(part.startswith((".", "__MACOSX")) for part in parts)
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


class Member:
    """A log inside of a zip.

    Args:
        path: that leads into it.

    Attributes:
        size: bytes, inflated, as the zip's directory says.
        packed: bytes that it takes in the zip.

    Raises DataError where there is none, or it is itself a compressed file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive, name = split_zip(path)
        infos = _infos(self._archive)
        if name not in infos:
            raise DataError(f"{path}: the zip has no such file; it has {', '.join(sorted(infos)[:8]) or 'none'}")
        if PurePosixPath(name).suffix.lower() in (".gz", ".zst", ".zstd", ".zip", ".parquet"):
            raise DataError(f"{path}: a file of this kind is not read inside of a zip; unpack the zip")
        self._info = infos[name]
        self.size = self._info.file_size
        self.packed = min(self._info.compress_size, self._archive.stat().st_size)

    def blocks(self, size: int) -> Iterator[bytes]:
        """What it holds, `size` bytes at a time; DataError where it is damaged."""
        with _reading(self._path), zipfile.ZipFile(self._archive) as opened, opened.open(self._info) as file:
            while data := file.read(size):
                yield data


def _infos(archive: Path) -> dict[str, zipfile.ZipInfo]:
    """The files of a zip by name; names that lead out of it are none of a log."""
    with _reading(archive), zipfile.ZipFile(archive) as opened:
        found = {PurePosixPath(info.filename): info for info in opened.infolist() if not info.is_dir()}
    return {str(name): info for name, info in found.items() if not name.is_absolute() and ".." not in name.parts}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        raise DataError(f"{path}: it cannot be read from its zip ({error}); make or fetch it again") from None
