"""What image files state in their headers: size, kind, what a decoder takes. Nothing is decoded.

Each header is read as its decoder reads it, in a bounded number of steps.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from suites.vision.pictures import tiff

_SIZED_SEGMENTS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG frames: all but tables and extensions
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG markers without a length
_SCAN = 0xDA
_BASELINE = 0xC0
_MOST_STEPS = 1 << 16  # from marker to marker of a JPEG header
_PNM_BYTES = 4096  # that a header may have, comments among them
_PNM_DIGITS = 10
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # of each colour type
_OTHERS = (
    (b"II+\0", "BigTIFF"),
    (b"MM\0+", "BigTIFF"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"#?R", "Radiance HDR"),
    (b"PF", "PFM"),
    (b"Pf", "PFM"),
    (b"P7", "PAM"),
    (b"\x59\xa6\x6a\x95", "Sun Raster"),
    (b"8BPS", "Photoshop"),
    (b"%PDF", "PDF"),
    (b"<svg", "SVG"),
)


_STILL = (b"avif", b"avis", b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")  # MP4's brands
_VIDEO = "a video file, which is not read; give its frames"
_HEAD = 64  # bytes
_NO_PICTURES = (
    (b"pk\3\4", "a zip; unpack it"),
    (b"\x1f\x8b", "packed by gzip; unpack it"),
    (b"rar!", "a RAR archive; unpack it"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it"),
    (b"\x1a\x45\xdf\xa3", _VIDEO),
    (b"<!doctype html", "a page of the web, as a download that failed leaves it; download it again"),
    (b"<html", "a page of the web, as a download that failed leaves it; download it again"),
)


@dataclass(frozen=True)
class Header:
    """What the header of an image file states.

    Attributes:
        kind: "PNG", "JPEG", "BMP", "WebP", "TIFF", "PNM" or "GIF".
        height, width: of the picture, before its EXIF orientation is applied.
        pixels: that the decoder makes room for: those of the picture, or of one of its tiles where that is larger.
        pixel_bytes: of one of them.
        plain: whether the decoder may run in this process; others are decoded by `suites.vision.pictures.apart`.
        directory: that of a TIFF file.
        baseline: whether all frames of a JPEG are baseline ones.
    """

    kind: str
    height: int
    width: int
    pixels: int
    pixel_bytes: int = 3
    plain: bool = True
    directory: tiff.Directory | None = None
    baseline: bool = False


def picture_header(data: bytes) -> Header | None:
    """The header of an image file; None where it is damaged or of a kind that is not read."""
    try:
        found = _header(data)
    except (struct.error, IndexError, ValueError):
        return None
    return found if found is not None and min(found.height, found.width, found.pixels) > 0 else None


def image_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) that the header of an image file states; None where it is damaged or of another kind.

    A JPEG with several frames gives the largest extents.
    """
    found = picture_header(data)
    return None if found is None else (found.height, found.width)


def other_kind(data: bytes) -> str | None:
    """What a file is that is no picture of a kind that is read, and what to do; None where that is not known."""
    if data[4:8] == b"ftyp":
        return "an AVIF or HEIC file, which is not read; convert it" if data[8:12] in _STILL else _VIDEO
    if (name := next((name for sign, name in _OTHERS if data.startswith(sign)), None)) is not None:
        return f"a {name} file, which is not read; convert it"
    start = data[:_HEAD].lstrip().lower()
    return next((said for sign, said in _NO_PICTURES if start.startswith(sign)), None)


def _header(data: bytes) -> Header | None:
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _png(data)
    if data[:2] == b"BM":
        return _bmp(data)
    if data[:4] in (b"II*\0", b"MM\0*"):
        return _tiff(data)
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    for kind, sign, size in (
        ("WebP", b"RIFF", _webp),
        ("GIF", b"GIF8", _gif),
        ("PNM", b"P", _pnm),
    ):
        if data.startswith(sign):
            found = size(data)
            return None if found is None else Header(kind, *found, found[0] * found[1], 6 if kind == "PNM" else 3)
    return None


def _png(data: bytes) -> Header | None:
    width, height, bits, colour = struct.unpack_from(">IIBB", data, 16)
    if data[12:16] != b"IHDR" or colour not in _PNG_CHANNELS:
        return None
    return Header("PNG", height, width, height * width, max(3, _PNG_CHANNELS[colour] * max(bits // 8, 1)))


def _jpeg(data: bytes) -> Header | None:
    """The largest frame before the first scan: a decoder refuses one that comes later."""
    sizes, kinds = [], set()
    at = 2
    for _ in range(_MOST_STEPS):
        at = data.find(b"\xff", at)
        if not 0 <= at < len(data) - 1 or data[at + 1] in (0xD9, _SCAN):
            break
        kind = data[at + 1]
        if kind in (0x00, 0xFF) or kind in _ALONE:
            at += 1 if kind == 0xFF else 2
            continue
        if kind in _SIZED_SEGMENTS:
            kinds.add(kind)
            sizes.append(struct.unpack_from(">HH", data, at + 5))
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    if not sizes:
        return None
    height, width = max(h for h, _ in sizes), max(w for _, w in sizes)
    return Header("JPEG", height, width, height * width, baseline=kinds == {_BASELINE})


def _bmp(data: bytes) -> Header:
    """A height below 0 says that rows go from top to bottom. Packed rows are decoded apart."""
    (header,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
    packed = 0 if header == 12 else struct.unpack_from("<I", data, 30)[0]
    width, height = abs(width), abs(height)
    return Header("BMP", height, width, height * width, plain=packed in (0, 3))


def _webp(data: bytes) -> tuple[int, int] | None:
    """The canvas, or the frame where there is none; a lossless frame keeps 14 bits an extent in one number."""
    kind = data[12:16] if data[8:12] == b"WEBP" else b""
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


def _gif(data: bytes) -> tuple[int, int] | None:
    """The canvas that frames are drawn on."""
    width, height = struct.unpack_from("<HH", data, 6)
    return (height, width) if data[:6] in (b"GIF87a", b"GIF89a") else None


def _tiff(data: bytes) -> Header | None:
    found = tiff.directory(data)
    if found is None:
        return None
    pixels = max(found.height * found.width, found.piece)
    return Header("TIFF", found.height, found.width, pixels, max(3, found.bits // 8), found.plain, found)


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
