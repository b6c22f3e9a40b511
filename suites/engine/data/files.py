"""What a folder and a zip offer alike: names in order, files, and a table of files that stays small."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from framework.errors import DataError
from framework.many_files import Paths
from suites.engine.data.intake.naming import Endings, Finder, as_written, clutter, in_order, shown
from suites.engine.data.intake.passed import PassedOver

Ends = tuple[int, bytes, bytes]  # size of a file, its first and its last bytes
Listing = tuple[Endings, list[str], list[tuple[str, str]]]  # files, folders, what is passed over and why


class FileTable(ABC):
    """A fixed list of files in flat arrays: worker processes share it, and it has no object a file."""

    def __init__(self, root: str, names: Sequence[str]) -> None:
        joined = "".join(names)
        sizes = map(len, names) if joined.isascii() else (len(os.fsencode(name)) for name in names)
        self._root = root
        self._blob = np.frombuffer(os.fsencode(joined), np.uint8)
        self._ends = np.cumsum([0, *sizes], dtype=np.int64)

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

    def full_names(self) -> list[str]:
        """The `full_name` of every file."""
        names = self._blob.tobytes()
        if not (names.isascii() and self._root.isascii() and (self._root + names.decode()).isprintable()):
            return [self.full_name(at) for at in range(len(self))]
        text = names.decode()
        return [f"{self._root}/{text[first:end]}" for first, end in pairwise(self._ends.tolist())]

    @abstractmethod
    def read(self, index: int) -> bytes:
        """Bytes of file `index`; a DataError names a file that cannot be read."""

    def head(self, index: int, count: int) -> bytes:
        """The first bytes of file `index`, up to `count`; raises as `read`."""
        return self.read(index)[:count]

    def paths(self) -> Paths | None:
        """The files for functions of `framework.many_files`; None where they are no files of their own, as in a zip."""
        return None

    def ends(self, index: int, first: int, last: int) -> Ends | None:
        """(bytes, the first of them, the last of them) of file `index`; raises as `read`.

        None where the last bytes cannot be read without too many others, as those of a large deflated member of a zip.
        """
        return None

    def each_ends(self, places: np.ndarray, first: int, last: int) -> Iterator[Ends | None]:
        """The `ends` of these files; (-1, b"", b"") of one that cannot be read."""
        for at in places.tolist():
            try:
                yield self.ends(at, first, last)
            except DataError:
                yield -1, b"", b""

    @abstractmethod
    def sizes(self) -> np.ndarray:
        """Bytes of each file, int64 [files]; -1 where there is none."""

    def digest(self, index: int) -> bytes:
        """The `digest_of` file `index`; raises as `read`."""
        return digest_of(self.read(index))

    def end_digests(self, places: np.ndarray, end: int) -> list[bytes | None]:
        """For each place a digest of its file's size and so many bytes at each end; None where it cannot be read."""
        return [self._end_digest(at, end) for at in places.tolist()]

    def _end_digest(self, index: int, end: int) -> bytes | None:
        try:
            data = self.read(index)
        except DataError:
            return None
        return digest_of_ends(len(data), data[: 2 * end], data[-end:], end)


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
        self._listed: dict[str, tuple[Endings, list[str]]] = {}

    @abstractmethod
    def _entries(self, folder: str) -> Iterator[tuple[str, bool | str]]:
        """(name, whether it is a folder, or why it is not read) of what lies in `folder`; nothing if there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file of exactly this name."""

    @abstractmethod
    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        """Bytes of a file; a DataError names one that cannot be read, or is over the limit of this name."""

    @abstractmethod
    def table(self, names: Sequence[str]) -> FileTable:
        """A compact table of these files, which exist."""

    def names(self, folder: str = "") -> list[str]:
        """Names of the files directly in `folder` (without it), in order; empty if there is no such folder."""
        return list(self._list(folder)[0].names)

    def folders(self, folder: str = "") -> list[str]:
        """Names of the folders directly in `folder` (without it), in order; empty if there is no such folder."""
        return list(self._list(folder)[1])

    def below(self, folder: str = "") -> list[str]:
        """Paths of all files in `folder` and the folders below it, relative to it, folder by folder in order.

        A link to a folder that is read anyway, or to one above, is not followed.
        """
        return [prefix + name for prefix, files in self._walk(folder) for name in files.names]

    def endings(self) -> Endings:
        """What is `below` the root, by endings."""
        return Endings.joined(self._walk(""))

    def having(self, folder: str, endings: Collection[str]) -> list[str]:
        """As `below`, those files that have one of these endings, in any case; "" is that of names without one."""
        return [prefix + name for prefix, files in self._walk(folder) for name in files.of(endings)]

    def files(self, folder: str, endings: Collection[str], beside: Collection[str] = ()) -> list[str]:
        """Paths of the files in `folder` and below that have one of these endings, in any case, relative to it.

        Files of other endings are noted in `passed`, but for those that belong `beside` them, such as annotations.
        """
        for prefix, files in self._walk(folder):
            for kind in files.counts:
                if kind not in endings and kind not in beside:
                    names = (f"{folder}/{prefix}{name}".lstrip("/") for name in files.of((kind,)))
                    self.passed.note(f"{kind} files" if kind else "files without an ending", *names)
        return self.having(folder, endings)

    def _walk(self, top: str, below: str = "") -> Iterator[tuple[str, Endings]]:
        """What to put before the names of files in `top/below` and each folder below it, and these names."""
        folder = "/".join(filter(None, (top, below.rstrip("/"))))
        files, folders = self._list(folder)
        yield below, files
        for name in folders:
            if not self._repeats(top, f"{folder}/{name}" if folder else name):
                yield from self._walk(top, f"{below}{name}/")

    def _repeats(self, top: str, path: str) -> bool:
        """Whether a folder is a link to one above it, or to one that is read below `top` anyway."""
        return False

    def find(self, name: str) -> str | None:
        """The file that a list or an annotation means by a name; None if there is none.

        `./`, backslashes, composed and decomposed letters and capitals may differ; see `Finder`. An absolute path means
        the file below the root that it leads to.
        """
        if os.path.isabs(name):
            name = os.path.relpath(name, os.path.abspath(self.root))
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

    def _list(self, folder: str) -> tuple[Endings, list[str]]:
        """Files and folders of a folder without clutter, which is noted once."""
        if folder not in self._listed:
            files, folders, passed = self._listing(folder)
            for why, name in passed:
                self.passed.note(why, f"{folder}/{name}" if folder else name)
            self._listed[folder] = files, folders
        return self._listed[folder]

    def _listing(self, folder: str) -> Listing:
        files: list[str] = []
        folders: list[str] = []
        passed: list[tuple[str, str]] = []
        for name, kind in self._entries(folder):
            why = clutter(name) or (kind if isinstance(kind, str) else None)
            if why is not None:
                passed.append((why, name))
            else:
                (folders if kind else files).append(name)
        return Endings(in_order(files)), in_order(folders), passed


def digest_of(data: bytes) -> bytes:
    """A digest of 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def digest_of_ends(size: int, first: bytes, last: bytes, end: int) -> bytes:
    """A digest of a file's size and both its ends; of one of at most `2 * end` bytes, which are `first`, of all."""
    return digest_of(first if size <= 2 * end else b"%d " % size + first[:end] + last)
