"""Where files are read from: a folder or a zip, with one interface and a table of files that stays small.

A path may lead into a zip: `data/bccd.zip` is its root, `data/nuclei.zip/images` a folder inside. Zips are
read in place, nothing is unpacked. A relative path is looked for in the working folder, then in `$PADDOCK_DATA`.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from framework import limits
from framework.errors import DataError
from framework.outside import expanded, open_file, read_bytes
from suites.engine.data.intake.naming import Finder, as_written, clutter, ending, in_order, shown
from suites.engine.data.intake.passed import PassedOver
from suites.engine.data.remembered import Remembered

FOLDER_VARIABLE = "PADDOCK_DATA"

_log = logging.getLogger(__name__)
_STANDS_FOR_IT = "data"  # the first part of a path that names the folder of all data sets
_UTF8_NAME = 0x800  # flag of a zip's member
_Listing = tuple[list[str], list[str], list[tuple[str, str]]]  # files, folders, what is passed over and why
# Of folders without links, whose targets may change.
_LISTINGS: Remembered[_Listing] = Remembered(200_000, weight=lambda found: 1 + len(found[0]) + len(found[1]))
_ENDS: Remembered[bytes] = Remembered(100_000)  # digests
_DIGESTS: Remembered[bytes] = Remembered(100_000)
_LOCAL_HEADER = 30  # bytes before the name in a zip's local file header


class FileTable(ABC):
    """A fixed list of files in flat arrays: worker processes share it, and it has no object a file."""

    def __init__(self, root: str, names: Sequence[str]) -> None:
        encoded = [os.fsencode(name) for name in names]
        self._root = root
        self._blob = np.frombuffer(b"".join(encoded), np.uint8)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def name(self, index: int) -> str:
        """Path of file `index` under the root."""
        return os.fsdecode(self._blob[self._ends[index] : self._ends[index + 1]].tobytes())

    def path(self, index: int) -> str:
        """Path of file `index`."""
        return f"{self._root}/{self.name(index)}"

    def full_name(self, index: int) -> str:
        """Path of file `index` for a message."""
        return shown(self.path(index))

    @abstractmethod
    def read(self, index: int) -> bytes:
        """Bytes of file `index`; a DataError names a file that cannot be read."""

    def head(self, index: int, count: int) -> bytes:
        """The first bytes of file `index`, up to `count`; raises as `read`."""
        return self.read(index)[:count]

    def ends(self, index: int, first: int, last: int) -> tuple[int, bytes, bytes] | None:
        """(bytes, the first of them, the last of them) of file `index`; raises as `read`.

        None where the last bytes cannot be read without all others, as in a zip.
        """
        return None


class Source(ABC):
    """A folder or a zip while a dataset is being built. Names use `/` and are relative to the root.

    Hidden names, and those that systems leave among data, are not there for any reader. Names come in the order of
    their numbers: `f9.png` before `f10.png`.

    Attributes:
        root: of the source, for messages.
        passed: what lies there and is not read.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.passed = PassedOver()
        self._listed: dict[str, tuple[list[str], list[str]]] = {}

    @abstractmethod
    def _entries(self, folder: str) -> Iterator[tuple[str, bool | str]]:
        """(name, whether it is a folder, or why it is not read) of what lies in `folder`; nothing if there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file of exactly this name."""

    @abstractmethod
    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        """Bytes of a file; a DataError names one that cannot be read, or is over the limit of this name."""

    def digest(self, name: str, end: int | None = None) -> bytes:
        """A digest of a file's bytes, or only of its size and so many bytes at each end; raises as `read`."""
        data = self.read(name)
        return _digest(data) if end is None else _digest_of_ends(len(data), data[: 2 * end], data[-end:], end)

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file; -1 where there is none."""

    @abstractmethod
    def table(self, names: Sequence[str]) -> FileTable:
        """A compact table of these files, which exist."""

    def names(self, folder: str = "") -> list[str]:
        """Names of the files directly in `folder` (without it), in order; empty if there is no such folder."""
        return list(self._list(folder)[0])

    def folders(self, folder: str = "") -> list[str]:
        """Names of the folders directly in `folder` (without it), in order; empty if there is no such folder."""
        return list(self._list(folder)[1])

    def below(self, folder: str = "") -> list[str]:
        """Paths of all files in `folder` and the folders below it, relative to it, folder by folder in order.

        A link to a folder that is read anyway, or to one above, is not followed.
        """
        return self._below(folder, folder)

    def files(self, folder: str, endings: Sequence[str], beside: Sequence[str] = ()) -> list[str]:
        """Paths of the files in `folder` and below that have one of these endings, in any case, relative to it.

        Files of other endings are noted in `passed`, but for those that belong `beside` them, such as annotations.
        """
        found = []
        for name in self.below(folder):
            kind = ending(name)
            if kind in endings:
                found.append(name)
            elif kind not in beside:
                self.passed.note(f"{kind} files" if kind else "files without an ending", f"{folder}/{name}".lstrip("/"))
        return found

    def _below(self, top: str, folder: str) -> list[str]:
        files, folders = self._list(folder)
        found = list(files)
        for name in folders:
            path = f"{folder}/{name}" if folder else name
            if not self._repeats(top, path):
                found += [f"{name}/{each}" for each in self._below(top, path)]
        return found

    def _repeats(self, top: str, path: str) -> bool:
        """Whether a folder is a link to one above it, or to one that is read below `top` anyway."""
        return False

    def find(self, name: str) -> str | None:
        """The file that a list or an annotation means by a name; None if there is none.

        `./`, backslashes, composed and decomposed letters and capitals may differ; see `Finder`.
        """
        plain = as_written(name)
        for each in (plain, name):
            if self.exists(each):
                return each
        folder = ""
        *parents, last = plain.split("/")
        for part in parents:
            below = part if part == ".." else Finder(self.folders(folder)).find(part)
            if below is None:
                return None
            folder = f"{folder}/{below}" if folder else below
        file = Finder(self.names(folder)).find(last)
        return None if file is None else f"{folder}/{file}" if folder else file

    def first_folder(self, candidates: Iterable[str], what: str) -> str:
        """The first of the candidate folders that holds files, in it or below."""
        candidates = list(candidates)
        for folder in candidates:
            if self.below(folder):
                return folder
        raise DataError(f"{self.root}: no {what}; looked for the folder {' or '.join(candidates)}")

    def _list(self, folder: str) -> tuple[list[str], list[str]]:
        """Files and folders of a folder without clutter, which is noted once."""
        if folder not in self._listed:
            files, folders, passed = self._listing(folder)
            for why, name in passed:
                self.passed.note(why, f"{folder}/{name}" if folder else name)
            self._listed[folder] = files, folders
        return self._listed[folder]

    def _listing(self, folder: str) -> _Listing:
        files: list[str] = []
        folders: list[str] = []
        passed: list[tuple[str, str]] = []
        for name, kind in self._entries(folder):
            why = clutter(name) or (kind if isinstance(kind, str) else None)
            if why is not None:
                passed.append((why, name))
            else:
                (folders if kind else files).append(name)
        return in_order(files), in_order(folders), passed


def find_data(path: str | os.PathLike[str]) -> Path:
    """Return where a path of data leads; it may lead into an archive.

    A relative path is looked for in the working folder, then in the folder that `$PADDOCK_DATA` names. A first
    `data/` of the path stands for that folder: `data/coco` is `$PADDOCK_DATA/coco`. A path that leads nowhere is
    returned as it is.
    """
    path = Path(path)
    if is_there(path) or is_there(path := expanded(path)):
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

    def _entries(self, folder: str) -> Iterator[tuple[str, bool | str]]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                for entry in entries:
                    is_folder = self._is_folder(entry)
                    yield entry.name, self._why_not(entry) if is_folder is None else is_folder
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise DataError(f"{shown(os.path.join(self.root, folder))}: may not be read ({error.strerror})") from None

    def _is_folder(self, entry: os.DirEntry[str]) -> bool | None:
        """Whether an entry is a folder, or else a file; None for what is not read."""
        try:
            if self._leads_above(entry):
                return None
            return True if entry.is_dir() else False if entry.is_file() else None
        except (OSError, RuntimeError):  # a link that leads to itself
            return None

    @staticmethod
    def _why_not(entry: os.DirEntry[str]) -> str:
        if not entry.is_symlink():
            return "that are no regular files"
        return "links to folders that are read anyway" if os.path.exists(entry.path) else "broken links"

    @staticmethod
    def _leads_above(entry: os.DirEntry[str]) -> bool:
        """Whether an entry is a link to the folder that it lies in, or to one above."""
        if not entry.is_symlink() or not entry.is_dir():
            return False
        return Path(entry.path).parent.resolve().is_relative_to(Path(entry.path).resolve())

    def _repeats(self, top: str, path: str) -> bool:
        whole = Path(self.root, path)
        if not whole.is_symlink():
            return False
        target = whole.resolve()
        repeats = target.is_relative_to(Path(self.root, top).resolve()) or whole.parent.resolve().is_relative_to(target)
        if repeats:
            self.passed.note("links to folders that are read anyway", path)
        return repeats

    def _listing(self, folder: str) -> _Listing:
        path = os.path.join(self.root, folder)
        return _LISTINGS.get(path, lambda: super(_Folder, self)._listing(folder), unless=lambda: _holds_links(path))

    def digest(self, name: str, end: int | None = None) -> bytes:
        path = os.path.join(self.root, name)
        if end is None:
            return _DIGESTS.get(path, lambda: _digest(_read_path(path)))
        return _ENDS.get(path, lambda: _digest_of_ends(*_ends(path, 2 * end, end), end))

    def exists(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self.root, name))

    def size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.root, name)).st_size
        except OSError:
            return -1

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        return _read_path(os.path.join(self.root, name), limit)

    def table(self, names: Sequence[str]) -> FileTable:
        return _FolderTable(self.root, names)


class _FolderTable(FileTable):
    def read(self, index: int) -> bytes:
        return _read_path(self.path(index))

    def head(self, index: int, count: int) -> bytes:
        try:
            with open_file(self.path(index), None, DataError) as file:
                return file.read(count)
        except OSError as error:
            raise DataError(f"{self.full_name(index)}: cannot be read ({error.strerror or error})") from None

    def ends(self, index: int, first: int, last: int) -> tuple[int, bytes, bytes]:
        return _ends(self.path(index), first, last)


def _ends(path: str, first: int, last: int) -> tuple[int, bytes, bytes]:
    """Size, first and last bytes of a file."""
    try:
        with open_file(path, None, DataError) as file:
            number = file.fileno()
            size = os.fstat(number).st_size
            begin = os.pread(number, first, 0)
            end = begin[-last:] if size <= first else os.pread(number, last, max(0, size - last))
            return size, begin, end
    except (OSError, ValueError) as error:
        raise DataError(f"{shown(path)}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _holds_links(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.is_symlink() for entry in entries)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _digest_of_ends(size: int, first: bytes, last: bytes, end: int) -> bytes:
    """Of a file of at most `2 * end` bytes its digest."""
    return _digest(first if size <= 2 * end else b"%d " % size + first[:end] + last)


def _read_path(path: str, limit: str = "member_bytes") -> bytes:
    try:
        return read_bytes(path, limit, DataError)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise DataError(f"{shown(path)}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


class _Zip(Source):
    def __init__(self, archive: Path, inside: str) -> None:
        prefix = "" if inside == "." else f"{inside}/"
        super().__init__(f"{archive}/{prefix}".rstrip("/"))
        self._archive = archive
        try:
            with zipfile.ZipFile(archive) as opened:
                infos = {_member_name(info): info for info in opened.infolist()}
        except OSError as error:
            raise DataError(f"{archive}: cannot be read ({error.strerror or error})") from None
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, IndexError, struct.error) as error:
            raise DataError(f"{archive}: not a readable zip ({error}); copy it again") from None
        infos = {name: info for name, info in infos.items() if not name.endswith("/")}
        self._infos = {n.removeprefix(prefix): info for n, info in infos.items() if n.startswith(prefix)}
        if not self._infos:
            raise DataError(f"{archive}: holds no files under {inside!r}")

    def _entries(self, folder: str) -> Iterator[tuple[str, bool | str]]:
        return ((name, is_folder) for name, is_folder in self._tree.get(folder.strip("/"), {}).items())

    @cached_property
    def _tree(self) -> dict[str, dict[str, bool]]:
        """What lies directly in each folder, and whether it is one."""
        found: dict[str, dict[str, bool]] = {}
        for name in self._infos:
            below = False
            while name:
                folder, _, last = name.rpartition("/")
                if last in found.setdefault(folder, {}):
                    break
                found[folder][last] = below
                name, below = folder, True
        return found

    def exists(self, name: str) -> bool:
        return name in self._infos

    def size(self, name: str) -> int:
        return self._infos[name].file_size if name in self._infos else -1

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        if name not in self._infos:
            raise DataError(f"{self.root}/{name}: cannot be read (no such file in the zip)")
        limits.check(limit, self._infos[name].file_size, f"{self.root}/{name}: it has too many bytes", DataError)
        return self.table([name]).read(0)

    def table(self, names: Sequence[str]) -> FileTable:
        return _ZipTable(self.root, str(self._archive), names, [self._infos[name] for name in names])


def _member_name(info: zipfile.ZipInfo) -> str:
    """The name of a member with slashes; a folder's ends with one.

    Names without the mark of UTF-8 are code page 437 by the letter of the format, but most tools write UTF-8.
    """
    name = info.orig_filename if "\\" in info.orig_filename else info.filename
    if not info.flag_bits & _UTF8_NAME:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    plain = as_written(name)
    return f"{plain}/" if info.is_dir() or name.endswith(("/", "\\")) else plain


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
            with open_file(self._archive, None, DataError) as file:
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
