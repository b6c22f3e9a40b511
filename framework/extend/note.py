"""Reads the note that `paddock/operator.h` puts into a library, from the file: nothing of the library runs for it.

So a file that is cut off, is no library, is somebody else's, or was built against other headers is refused before the
dynamic linker sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from framework import _core
from framework.errors import LibraryError
from framework.outside import read_bytes

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")  # of a 64-bit ELF file, after the identification
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD, _NOTE = 1, 4  # kinds of segments
_OWNER = b"Paddock\0"
_DESCRIPTION = struct.Struct("<16s20sI")  # AbiDescription


def check_note(file: Path) -> None:
    """Refuses a file that is no library of operators for this very version.

    Raises:
        LibraryError: says what it is instead, and what to do.
    """
    try:
        data = read_bytes(file, "member_bytes", LibraryError)
    except OSError as e:
        raise LibraryError(f"{file}: cannot be read ({e.strerror or e})") from None
    notes = list(_notes(file, data))
    if not notes:
        raise LibraryError(
            f"{file}: is no library of operators; one includes paddock/operator.h (python -m framework.extend prints "
            "the flags to compile with)"
        )
    abi = _core.abi()
    for headers, version, standard_library in notes:
        if headers != abi["headers"]:
            raise LibraryError(
                f"{file}: was built against the headers of paddock {version} ({headers}), but this is paddock "
                f"{abi['version']} ({abi['headers']}); compile it again"
            )
        if standard_library != abi["standard_library"]:
            raise LibraryError(
                f"{file}: was built with another layout of the C++ standard library; compile it with the flags that "
                "python -m framework.extend prints"
            )


def _notes(file: Path, data: bytes) -> Iterator[tuple[str, str, int]]:
    """(digest of headers, version, standard library) of each of our notes."""
    for kind, offset, size, align in _segments(file, data):
        if kind != _NOTE:
            continue
        at, end, step = offset, offset + size, max(align, 4)
        while at + 12 <= end:
            name_size, size_of, note_type = struct.unpack_from("<III", data, at)
            name = at + 12
            description = name + -(-name_size // step) * step
            at = description + -(-size_of // step) * step
            if (
                data[name : name + name_size] == _OWNER
                and note_type == _core.abi()["note_type"]
                and size_of == _DESCRIPTION.size
                and description + size_of <= end
            ):
                headers, version, library = _DESCRIPTION.unpack_from(data, description)
                yield headers.decode("ascii", "replace"), version.rstrip(b"\0").decode("ascii", "replace"), library


def _segments(file: Path, data: bytes) -> list[tuple[int, int, int, int]]:
    """(kind, offset, bytes, alignment) of the program's segments, all inside the file."""
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise LibraryError(f"{file}: is no shared library for this system (64-bit ELF)")
    _, _, _, _, first, sections, _, _, entry_size, count, section_size, section_count, _ = _HEADER.unpack_from(data)
    if sections + section_size * section_count > len(data):
        raise LibraryError(f"{file}: is cut off at {len(data)} bytes; build or copy it again")
    if entry_size != _SEGMENT.size or first + count * entry_size > len(data):
        raise LibraryError(f"{file}: is damaged (its table of segments lies outside of it); build it again")
    segments = []
    for i in range(count):
        kind, _, offset, _, _, size, _, align = _SEGMENT.unpack_from(data, first + i * entry_size)
        if kind in (_LOAD, _NOTE) and offset + size > len(data):
            raise LibraryError(f"{file}: is cut off at {len(data)} bytes; build or copy it again")
        segments.append((kind, offset, size, align))
    return segments
