"""Height and width of image files from their headers: PNG, JPEG, BMP, WebP, TIFF, PNM. Nothing is decoded."""

from __future__ import annotations

import struct

_SIZED_SEGMENTS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG frames: all but tables and extensions
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG markers without a length
_MOST_ENTRIES = 4096  # of a TIFF directory
_PNM_BYTES = 4096  # that a header may have, comments among them
_PNM_DIGITS = 10
_TIFF_NUMBER = {1: "B", 3: "H", 4: "I"}


def image_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) that the header of an image file states; None where it is damaged or of another kind.

    A JPEG with several frames gives the largest extents.
    """
    try:
        found = _size_by_kind(data)
    except (struct.error, IndexError, ValueError):
        return None
    return found if found is not None and min(found) > 0 else None


def _size_by_kind(data: bytes) -> tuple[int, int] | None:
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        width, height = struct.unpack_from(">II", data, 16)
        return (height, width) if data[12:16] == b"IHDR" else None
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    if data[:2] == b"BM":
        return _bmp(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:4] in (b"II*\0", b"MM\0*"):
        return _tiff(data)
    return _pnm(data) if data[:1] == b"P" else None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    sizes = []
    at = 2
    while 0 <= (at := data.find(b"\xff", at)) < len(data) - 1:
        kind = data[at + 1]
        if kind == 0xD9:
            break
        if kind in (0x00, 0xFF) or kind in _ALONE:
            at += 1 if kind == 0xFF else 2
            continue
        if kind in _SIZED_SEGMENTS:
            sizes.append(struct.unpack_from(">HH", data, at + 5))
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return (max(h for h, _ in sizes), max(w for _, w in sizes)) if sizes else None


def _bmp(data: bytes) -> tuple[int, int]:
    (header,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
    return abs(height), abs(width)


def _webp(data: bytes) -> tuple[int, int] | None:
    """The canvas, or the frame where there is none; a lossless frame keeps 14 bits an extent in one number."""
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return height, width
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return height & 0x3FFF, width & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1
    return None


def _tiff(data: bytes) -> tuple[int, int] | None:
    """Tags 256 and 257 of the first directory."""
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, at)
    found: dict[int, int] = {}
    for entry in range(at + 2, at + 2 + 12 * min(count, _MOST_ENTRIES), 12):
        tag, kind = struct.unpack_from(order + "HH", data, entry)
        if tag in (256, 257) and kind in _TIFF_NUMBER:
            (found[tag],) = struct.unpack_from(order + _TIFF_NUMBER[kind], data, entry + 8)
    return (found[257], found[256]) if len(found) == 2 else None


def _pnm(data: bytes) -> tuple[int, int] | None:
    """Scans as netpbm and OpenCV do: any space parts the numbers, a comment goes from # to LF or CR."""
    if data[1:2] not in (b"1", b"2", b"3", b"4", b"5", b"6") or not data[2:3].isspace():
        return None
    found = _numbers(data[2:_PNM_BYTES], 2)
    return (found[1], found[0]) if len(found) == 2 else None


def _numbers(text: bytes, wanted: int) -> list[int]:
    """The first numbers of a PNM header, fewer where it is damaged; a space must follow each."""
    found: list[int] = []
    digits, comment = "", False
    for byte in text:
        sign = chr(byte)
        if comment:
            comment = sign not in "\r\n"
        elif sign in "0123456789":
            digits += sign
        elif sign in " \t\n\v\f\r":
            found += [int(digits)] if digits else []
            digits = ""
        elif sign == "#" and not digits:
            comment = True
        else:  # OpenCV would take a sign after a number for a space, and a comment there for the next number
            break
        if len(found) == wanted or len(digits) > _PNM_DIGITS:
            break
    return found
