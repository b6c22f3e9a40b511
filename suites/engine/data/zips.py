"""Zip: files of a zip, read in place; nothing is unpacked."""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from framework import limits
from framework.errors import DataError
from framework.outside import open_file, refuse_pointer
from suites.engine.data.files import Ends, FileTable, Source
from suites.engine.data.intake.naming import as_written

_ENCRYPTED, _UTF8_NAME = 0x1, 0x800  # flags of a zip's member
_SMALL = 1 << 16  # bytes of a deflated member that is read for its ends
_NOT_THERE = (0, 0, zipfile.ZIP_STORED, 0, -1)  # where the zip holds no file of a name
_LOCAL_HEADER = 30  # bytes before the name in a zip's local file header


class Zip(Source):
    """A zip, or a folder inside of one.

    Args:
        archive: the zip.
        inside: the folder; "." for all of it.
    """

    def __init__(self, archive: Path, inside: str) -> None:
        prefix = "" if inside == "." else f"{inside}/"
        super().__init__(f"{archive}/{prefix}".rstrip("/"))
        self._archive = archive
        try:
            with open_file(archive, None, DataError) as file, zipfile.ZipFile(file) as opened:
                infos = {_member_name(info): info for info in opened.infolist()}
        except OSError as error:
            raise DataError(f"{archive}: cannot be read ({error.strerror or error})") from None
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, IndexError, struct.error) as error:
            raise DataError(f"{archive}: not a readable zip ({error}); copy it again") from None
        infos = {name: info for name, info in infos.items() if not name.endswith("/")}
        if (locked := next((name for name, info in infos.items() if info.flag_bits & _ENCRYPTED), None)) is not None:
            raise DataError(f"{archive}: {locked} is encrypted; unpack the zip by its password, and give the folder")
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
        """Whether there is a file of exactly this name."""
        return name in self._infos

    def read(self, name: str, limit: str = "member_bytes") -> bytes:
        """Bytes of a file; see `Source.read`."""
        if name not in self._infos:
            raise DataError(f"{self.root}/{name}: cannot be read (no such file in the zip)")
        limits.check(limit, self._infos[name].file_size, f"{self.root}/{name}: it has too many bytes", DataError)
        return self.table([name]).read(0)

    def table(self, names: Sequence[str]) -> FileTable:
        """A compact table of these files."""
        return _ZipTable(self.root, str(self._archive), names, [self._infos.get(name) for name in names])


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

    def __init__(self, root: str, archive: str, names: Sequence[str], infos: Sequence[zipfile.ZipInfo | None]) -> None:
        super().__init__(root, names)
        self._archive = archive
        rows = [
            (i.header_offset, i.compress_size, i.compress_type, i.CRC, i.file_size) if i else _NOT_THERE for i in infos
        ]
        self._places = np.asarray(rows, np.int64).reshape(-1, 5)

    def sizes(self) -> np.ndarray:
        return self._places[:, 4].copy()

    def _place(self, index: int) -> list[int]:
        place: list[int] = self._places[index].tolist()
        if place[-1] < 0:
            raise DataError(f"{self.full_name(index)}: cannot be read (no such file in the zip)")
        return place

    def ends(self, index: int, first: int, last: int) -> Ends | None:
        """See `FileTable.ends`; None for a large deflated member."""
        offset, packed, kind, _, size = self._place(index)
        if kind != zipfile.ZIP_STORED or packed != size:
            data = self.read(index) if size <= _SMALL else None
            return data if data is None else (size, data[:first], data[-last:])
        try:
            with open_file(self._archive, None, DataError) as file:
                begin = _to_content(file, offset)
                head = file.read(min(first, size))
                file.seek(begin + max(0, size - last))
                return size, head, file.read(min(last, size))
        except (OSError, struct.error, ValueError) as error:
            raise DataError(f"{self.full_name(index)}: cannot be read ({error})") from None

    def read(self, index: int) -> bytes:
        offset, packed, kind, checksum, size = self._place(index)
        limits.check("member_bytes", max(packed, size), f"{self.full_name(index)}: it has too many bytes", DataError)
        try:
            with open_file(self._archive, None, DataError) as file:
                _to_content(file, offset)
                held = os.fstat(file.fileno()).st_size  # reading makes room for all that is asked
                data = _inflate(file.read(min(packed, held)), kind, size)
        except (OSError, struct.error, zlib.error, ValueError) as error:
            raise DataError(f"{self.full_name(index)}: cannot be read ({error})") from None
        if zlib.crc32(data) != checksum:
            raise DataError(f"{self.full_name(index)}: damaged inside the zip (checksum differs)")
        refuse_pointer(data, self.full_name(index), DataError)
        return data


def _to_content(file: BinaryIO, offset: int) -> int:
    """Goes behind the local header of a member, and returns the place."""
    file.seek(offset)
    name_size, extra_size = struct.unpack_from("<HH", file.read(_LOCAL_HEADER), 26)
    return file.seek(name_size + extra_size, os.SEEK_CUR)


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
