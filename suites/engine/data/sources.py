"""Where files are read from: a folder or a zip, with one interface and a table of files that stays small.

A path may lead into a zip: `data/bccd.zip` is its root, `data/nuclei.zip/images` a folder inside. Zips are
read in place, nothing is unpacked. A relative path is looked for in the working folder, then in `$PADDOCK_DATA`.
"""

from __future__ import annotations

import logging
import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from framework import limits
from framework.errors import DataError
from framework.outside import read_bytes

FOLDER_VARIABLE = "PADDOCK_DATA"

_log = logging.getLogger(__name__)
_STANDS_FOR_IT = "data"  # the first part of a path that names the folder of all data sets
_LOCAL_HEADER = 30  # bytes before the name in a zip's local file header


class FileTable(ABC):
    """A fixed list of files in flat arrays: worker processes share it, and it has no object a file."""

    def __init__(self, root: str, names: Sequence[str]) -> None:
        encoded = [name.encode() for name in names]
        self._root = root
        self._blob = np.frombuffer(b"".join(encoded), np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def name(self, index: int) -> str:
        """Path of file `index` under the root."""
        return self._blob[self._ends[index] : self._ends[index + 1]].tobytes().decode()

    def full_name(self, index: int) -> str:
        """Path of file `index` for a message."""
        return f"{self._root}/{self.name(index)}"

    @abstractmethod
    def read(self, index: int) -> bytes:
        """Bytes of file `index`; a DataError names a file that cannot be read."""


class Source(ABC):
    """A folder or a zip while a dataset is being built. Names use `/` and are relative to the root."""

    def __init__(self, root: str) -> None:
        self.root = root

    @abstractmethod
    def names(self, folder: str = "") -> list[str]:
        """Sorted names of the files directly in `folder` (without it); empty if there is no such folder."""

    @abstractmethod
    def folders(self, folder: str = "") -> list[str]:
        """Sorted names of the folders directly in `folder` (without it); empty if there is no such folder."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        """Bytes of a file; a DataError names one that cannot be read, or is over the limit of this name."""

    @abstractmethod
    def table(self, names: Sequence[str]) -> FileTable:
        """A compact table of these files, which exist."""

    def first_folder(self, candidates: Iterable[str], what: str) -> str:
        """The first of the candidate folders that holds files."""
        candidates = list(candidates)
        for folder in candidates:
            if self.names(folder):
                return folder
        raise DataError(f"{self.root}: no {what}; looked for the folder {' or '.join(candidates)}")


def find_data(path: str | os.PathLike[str]) -> Path:
    """Return where a path of data leads; it may lead into an archive.

    A relative path is looked for in the working folder, then in the folder that `$PADDOCK_DATA` names. A first
    `data/` of the path stands for that folder: `data/coco` is `$PADDOCK_DATA/coco`. A path that leads nowhere is
    returned as it is.
    """
    path = Path(path)
    if is_there(path):
        return path
    other = _in_data_folder(path)
    if other is None or not is_there(other):
        return path
    _log.info("%s: taken from %s ($%s)", path, other, FOLDER_VARIABLE)
    return other


def places_tried(path: str | os.PathLike[str]) -> str:
    """Return where `find_data` looks for a path, for a message."""
    path = Path(path)
    if path.is_absolute():
        return "the path is absolute, so it was looked for there only"
    other = _in_data_folder(path)
    second = f"{FOLDER_VARIABLE} names no other folder" if other is None else f"{other} (${FOLDER_VARIABLE})"
    return f"looked for {Path.cwd() / path} and {second}" if other else f"looked for {Path.cwd() / path}; {second}"


def _in_data_folder(path: Path) -> Path | None:
    """The path below `$PADDOCK_DATA`; None for an absolute path, and where the variable is not set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or path.is_absolute():
        return None
    parts = path.parts[1:] if path.parts[:1] == (_STANDS_FOR_IT,) else path.parts
    return Path(folder).absolute().joinpath(*parts)


def is_there(path: Path) -> bool:
    """Return whether a path leads to something, or into a file that may be an archive."""
    return path.exists() or any(parent.is_file() for parent in path.parents)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Opens a folder, a zip, or a folder inside a zip, found by `find_data`.

    Raises:
        DataError: There is no such folder, or the zip is damaged.
    """
    found = find_data(path)
    if found.is_dir():
        return _Folder(found)
    for archive in (found, *found.parents):
        if archive.suffix.lower() == ".zip" and archive.is_file():
            return _Zip(archive, found.relative_to(archive).as_posix())
    raise DataError(f"{path}: no such folder or .zip file; {places_tried(path)}")


def open_zip(path: Path) -> Source:
    """Opens a zip whatever its name ends with, such as a wheel; raises as `open_source` does."""
    return _Zip(path, ".")


def read_file(path: str | os.PathLike[str], limit: str = "member_bytes") -> bytes:
    """Bytes of a file that may lie inside a zip (`data/nuclei.zip/instances_val.json`), found by `find_data`.

    A DataError names one that cannot be read, or is over the limit of this name.
    """
    found = find_data(path)
    if not is_there(found):
        raise DataError(f"{path}: no such file; {places_tried(path)}")
    return open_source(found.parent).read(found.name, limit)


class _Folder(Source):
    def __init__(self, root: Path) -> None:
        super().__init__(str(root))

    def names(self, folder: str = "") -> list[str]:
        return self._entries(folder, os.DirEntry.is_file)

    def folders(self, folder: str = "") -> list[str]:
        return self._entries(folder, os.DirEntry.is_dir)

    def _entries(self, folder: str, kind: Callable[[os.DirEntry[str]], bool]) -> list[str]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                return sorted(entry.name for entry in entries if kind(entry))
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self.root, name))

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        return _read_path(os.path.join(self.root, name), limit)

    def table(self, names: Sequence[str]) -> FileTable:
        return _FolderTable(self.root, names)


class _FolderTable(FileTable):
    def read(self, index: int) -> bytes:
        return _read_path(os.path.join(self._root, self.name(index)))


def _read_path(path: str, limit: str = "member_bytes") -> bytes:
    try:
        return read_bytes(path, limit, DataError)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


class _Zip(Source):
    def __init__(self, archive: Path, inside: str) -> None:
        prefix = "" if inside == "." else f"{inside}/"
        super().__init__(f"{archive}/{prefix}".rstrip("/"))
        self._archive = archive
        try:
            with zipfile.ZipFile(archive) as opened:
                infos = {info.filename: info for info in opened.infolist() if not info.is_dir()}
        except OSError as error:
            raise DataError(f"{archive}: cannot be read ({error.strerror or error})") from None
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error) as error:
            raise DataError(f"{archive}: not a readable zip ({error}); copy it again") from None
        self._infos = {n.removeprefix(prefix): info for n, info in infos.items() if n.startswith(prefix)}
        if not self._infos:
            raise DataError(f"{archive}: holds no files under {inside!r}")

    def names(self, folder: str = "") -> list[str]:
        return sorted(self._files_in.get(str(PurePosixPath(folder)), ()))

    def folders(self, folder: str = "") -> list[str]:
        parent = PurePosixPath(folder)
        every = {p for name in self._files_in for p in (PurePosixPath(name), *PurePosixPath(name).parents)}
        return sorted(p.name for p in every if p != parent and p.parent == parent)

    @cached_property
    def _files_in(self) -> dict[str, list[str]]:
        """Names of the files directly in each folder that has some."""
        found: dict[str, list[str]] = {}
        for name in map(PurePosixPath, self._infos):
            found.setdefault(str(name.parent), []).append(name.name)
        return found

    def exists(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        if name not in self._infos:
            raise DataError(f"{self.root}/{name}: cannot be read (no such file in the zip)")
        limits.check(limit, self._infos[name].file_size, f"{self.root}/{name}: it has too many bytes", DataError)
        return self.table([name]).read(0)

    def table(self, names: Sequence[str]) -> FileTable:
        return _ZipTable(self.root, str(self._archive), names, [self._infos[name] for name in names])


class _ZipTable(FileTable):
    """Reads members by their place in the zip; `zipfile` would keep an object a file, in every process."""

    def __init__(self, root: str, archive: str, names: Sequence[str], infos: Sequence[zipfile.ZipInfo]) -> None:
        super().__init__(root, names)
        self._archive = archive
        rows = [(i.header_offset, i.compress_size, i.compress_type, i.CRC, i.file_size) for i in infos]
        self._places = np.asarray(rows, np.int64).reshape(-1, 5)

    def read(self, index: int) -> bytes:
        offset, packed, kind, checksum, size = self._places[index].tolist()
        limits.check("member_bytes", max(packed, size), f"{self.full_name(index)}: it has too many bytes", DataError)
        try:
            with open(self._archive, "rb") as file:
                file.seek(offset)
                header = file.read(_LOCAL_HEADER)
                name_size, extra_size = struct.unpack_from("<HH", header, 26)
                file.seek(name_size + extra_size, os.SEEK_CUR)
                held = os.fstat(file.fileno()).st_size  # reading makes room for all that is asked
                data = _inflate(file.read(min(packed, held)), kind, size)
        except (OSError, struct.error, zlib.error, ValueError) as error:
            raise DataError(f"{self.full_name(index)}: cannot be read ({error})") from None
        if zlib.crc32(data) != checksum:
            raise DataError(f"{self.full_name(index)}: damaged inside the zip (checksum differs)")
        return data


def _inflate(data: bytes, kind: int, size: int) -> bytes:
    """The content of a member, of `size` bytes as the zip's directory says, and no byte more."""
    if kind == zipfile.ZIP_STORED:
        return data
    if kind == zipfile.ZIP_DEFLATED:
        machine = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        found = machine.decompress(data, size + 1)
        if len(found) != size or not machine.eof:
            raise OSError(f"it does not inflate to the {size} bytes that the zip states")
        return found
    raise OSError(f"compressed by method {kind}; only stored and deflated files are read, pack it again")
