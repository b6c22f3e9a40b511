"""What a TIFF file states: its pages, and whether the first is so plain that it is decoded in this process.

TIFF 6.0: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from framework.errors import DataError

_NUMBERS = {1: "B", 3: "H", 4: "I"}  # formats of the field types that hold whole numbers
_MOST_ENTRIES = 4096
_MOST_PAGES, _MOST_STEPS = 1 << 12, 1 << 18  # of a file; steps from entry to entry of its directories
_SUBFILE, _OLD_SUBFILE = 254, 255
_SMALLER, _MASK, _OLD_SMALLER = 1, 4, 2  # of another page: a smaller copy of it, what is seen of it
_MOST_VALUES = 16
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_SAMPLES, _ROWS, _PLANES, _TILE_WIDTH, _TILE_HEIGHT, _EXTRA, _FORMAT = 277, 278, 284, 322, 323, 338, 339
_TILED = frozenset(range(322, 326))
_READ = _TILED | {_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _ROWS, _PLANES, _EXTRA, _FORMAT}
_ALL_ROWS = 2**32 - 1
_ASSOCIATED, _SEPARATE = 1, 2  # values of ExtraSamples: colours are multiplied by alpha in the file, or are not
_PLAIN = {
    _COMPRESSION: {1, 5, 8, 32773, 32946},  # none, LZW, deflate, PackBits
    _PHOTOMETRIC: {0, 1, 2, 3},  # grey, RGB, a palette
    _PLANES: {1},
    _FORMAT: {1},  # whole numbers
    _BITS: {8, 16},
}


@dataclass(frozen=True)
class Directory:
    """The first directory of a TIFF file.

    Attributes:
        height, width: of the picture.
        piece: pixels that are decoded at a time, those of a tile or of a strip.
        bits: of a pixel, all samples together.
        plain: baseline strips of 8 or 16 bits, or so near to it that they are decoded here.
        multiplied: whether the colours in the file are multiplied by alpha.
        separate_at: where in the file the number stands that says that they are not; None without such alpha.
        sample_bits: of the sample with most.
        white_is_zero: whether grey values count from white to black.
    """

    height: int
    width: int
    piece: int
    bits: int
    plain: bool
    multiplied: bool
    separate_at: int | None
    sample_bits: int
    white_is_zero: bool


def directory(data: bytes) -> Directory | None:
    """The first directory of a TIFF file; None where it states no size. Raises struct.error where it is cut off."""
    tags, places, odd = _tags(data)
    if _WIDTH not in tags or _HEIGHT not in tags:
        return None
    height, width = tags[_HEIGHT][0], tags[_WIDTH][0]
    samples = tags.get(_SAMPLES, [1])[0]
    rows = tags.get(_ROWS, [_ALL_ROWS])[0] or _ALL_ROWS
    tiled = not _TILED.isdisjoint(tags)
    piece = tags.get(_TILE_WIDTH, [0])[0] * tags.get(_TILE_HEIGHT, [0])[0] if tiled else width * min(rows, height)
    extra = tags.get(_EXTRA, [0])[0] if samples in (2, 4) else 0
    return Directory(
        height,
        width,
        piece,
        max(tags.get(_BITS, [1])) * samples,
        not (odd or tiled) and 1 <= samples <= 4 and (rows <= height or rows == _ALL_ROWS) and _is_plain(tags),
        extra == _ASSOCIATED,
        places[_EXTRA] if extra == _SEPARATE else None,
        max(tags.get(_BITS, [1])),
        tags.get(_PHOTOMETRIC, [1])[0] == 0,
    )


def pages(data: bytes) -> list[int]:
    """Where the directory of each page begins; smaller copies and masks of a page are none.

    What is damaged ends the list. A file with a first directory has at least that.

    Raises:
        DataError: there are more pages, or more entries of directories, which may overlap, than are looked at.
    """
    order, steps = _order(data), 0
    found: list[int] = []
    seen: set[int] = set()
    try:
        (at,) = struct.unpack_from(order + "I", data, 4)
        while at and at not in seen:
            seen.add(at)
            (count,) = struct.unpack_from(order + "H", data, at)
            (following,) = struct.unpack_from(order + "I", data, at + 2 + 12 * count)
            entries = range(at + 2, at + 2 + 12 * min(count, _MOST_ENTRIES), 12)
            steps += 1 + len(entries)
            if len(found) == _MOST_PAGES or steps > _MOST_STEPS:
                raise DataError(f"has more than {len(found)} pages; split it into smaller files")
            if not found or _is_page(data, order, entries):
                found.append(at)
            at = following
    except struct.error:
        pass
    return found


def _is_page(data: bytes, order: str, entries: range) -> bool:
    for entry in entries:
        tag, kind, _ = struct.unpack_from(order + "HHI", data, entry)
        if tag > _OLD_SUBFILE:  # tags are in order
            break
        if tag in (_SUBFILE, _OLD_SUBFILE) and kind in _NUMBERS:
            (value,) = struct.unpack_from(order + _NUMBERS[kind], data, entry + 8)
            return not value & (_SMALLER | _MASK) if tag == _SUBFILE else value != _OLD_SMALLER
    return True


def beginning_with(data: bytes, directory: int) -> bytes:
    """The file as one whose first directory is the one that begins at this place."""
    order = _order(data)
    if struct.unpack_from(order + "I", data, 4)[0] == directory:
        return data
    return data[:4] + struct.pack(order + "I", directory) + data[8:]


def shown_as_stored(data: bytes, found: Directory) -> bytes:
    """The file with its colours called multiplied, so that libtiff does not multiply them by alpha."""
    if found.separate_at is None:
        return data
    changed = bytearray(data)
    struct.pack_into(_order(data) + "H", changed, found.separate_at, _ASSOCIATED)
    return bytes(changed)


def _is_plain(tags: dict[int, list[int]]) -> bool:
    bits = set(tags.get(_BITS, [1]))
    return len(bits) == 1 and all(set(tags.get(tag, allowed)) <= allowed for tag, allowed in _PLAIN.items())


def _tags(data: bytes) -> tuple[dict[int, list[int]], dict[int, int], bool]:
    """The numbers of the tags that count here, where each begins, and whether one is written in an odd way.

    Of a tag that is there twice libtiff takes the first.
    """
    order = _order(data)
    (at,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, at)
    found: dict[int, list[int]] = {}
    places: dict[int, int] = {}
    odd = count > _MOST_ENTRIES
    for entry in range(at + 2, at + 2 + 12 * min(count, _MOST_ENTRIES), 12):
        tag, kind, values = struct.unpack_from(order + "HHI", data, entry)
        odd |= tag in _READ and (tag in found or kind not in _NUMBERS or not 1 <= values <= _MOST_VALUES)
        if tag in _READ and tag not in found and kind in _NUMBERS and values:
            form = order + _NUMBERS[kind] * min(values, _MOST_VALUES)
            inside = struct.calcsize(order + _NUMBERS[kind]) * values <= 4
            places[tag] = entry + 8 if inside else struct.unpack_from(order + "I", data, entry + 8)[0]
            found[tag] = list(struct.unpack_from(form, data, places[tag]))
    return found, places, odd


def _order(data: bytes) -> str:
    return "<" if data[:2] == b"II" else ">"
