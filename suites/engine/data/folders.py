"""Folder: files of the file system. What was listed and compared is kept while it stays as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from framework import many_files
from framework.errors import DataError
from framework.many_files import Paths
from framework.outside import open_file, read_bytes
from suites.engine.data.files import Ends, FileTable, Listing, Source, digest_of
from suites.engine.data.intake.naming import shown
from suites.engine.data.remembered import Remembered

# Of folders without links, whose targets may change.
_LISTINGS: Remembered[Listing] = Remembered(200_000, weight=lambda found: 1 + len(found[0].names) + len(found[1]))
_DIGESTS: Remembered[bytes] = Remembered(100_000)


class Folder(Source):
    """A folder of the file system.

    Args:
        root: of the folder.
    """

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

    def _listing(self, folder: str) -> Listing:
        path = os.path.join(self.root, folder)
        return _LISTINGS.get(path, lambda: super(Folder, self)._listing(folder), unless=lambda: _holds_links(path))

    def exists(self, name: str) -> bool:
        """Whether there is a file of exactly this name."""
        return os.path.isfile(os.path.join(self.root, name))

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        """Bytes of a file; see `Source.read`."""
        return _read_path(os.path.join(self.root, name), limit)

    def table(self, names: Sequence[str]) -> FileTable:
        """A compact table of these files."""
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

    def paths(self) -> Paths:
        return Paths(os.fsencode(self._root), self._blob, self._ends)

    def ends(self, index: int, first: int, last: int) -> Ends:
        return _ends(self.path(index), first, last)

    def each_ends(self, places: np.ndarray, first: int, last: int) -> Iterator[Ends | None]:
        sizes, ends = many_files.ends(self.paths(), places, first, last)
        for size, row in zip(sizes.tolist(), ends, strict=True):
            both = row.tobytes()
            yield size, both[: max(0, min(size, first))], both[first : first + max(0, min(size, last))]

    def sizes(self) -> np.ndarray:
        return many_files.sizes(self.paths(), np.arange(len(self)))

    def digest(self, index: int) -> bytes:
        """See `FileTable.digest`; kept while the file stays as it is."""
        path = self.path(index)
        return _DIGESTS.get(path, lambda: digest_of(_read_path(path)))

    def end_digests(self, places: np.ndarray, end: int) -> list[bytes | None]:
        sizes, digests = many_files.end_digests(self.paths(), places, end)
        return [digest.tobytes() if size >= 0 else None for size, digest in zip(sizes.tolist(), digests, strict=True)]


def _ends(path: str, first: int, last: int) -> Ends:
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


def _read_path(path: str, limit: str = "member_bytes") -> bytes:
    try:
        return read_bytes(path, limit, DataError)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise DataError(f"{shown(path)}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
