"""Image files in, uint8 RGB arrays out; a damaged file gives one DataError that names it, never grey pixels.

Decoding is OpenCV's. OpenCV fills the missing part of a cut file with grey and says nothing to Python,
so the end of a JPEG, PNG, WebP or BMP file is checked here first.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import cv2
import numpy as np

from framework.atomic import atomic_file
from framework.errors import DataError
from framework.limits import check
from framework.outside import read_bytes
from suites.vision.pictures.apart import decode_apart
from suites.vision.pictures.headers import Header, other_kind, picture_header
from suites.vision.pictures.tiff import beginning_with, pages, shown_as_stored

_FREE, _GROWTH = 64 << 20, 8  # bytes that a picture of a rare kind may take: free ones, and so many times its own
QUICK_BYTES, _QUICK_PIXELS = 1 << 20, 1 << 21
_MOST_BITS, _KNOWN_DEPTHS = 16, "8 or 16 bit are read, convert it first"
_TIFF_SIGNS = (b"II*\0", b"MM\0*")
_SCAN = b"\xff\xda"
_MOST_STEPS = 1 << 18  # from part to part of a file
IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
)  # fmt: skip


def read_image(path: str | os.PathLike[str], page: int | None = None) -> np.ndarray:
    """Reads an image file as RGB; see `decode_image` for what is converted and what is refused.

    Args:
        path: the file.
        page: of a TIFF file, from 0; None where it has one.

    Returns:
        uint8 [H, W, 3].

    Raises:
        DataError: the file is missing, unreadable, empty, cut off or not an image.
    """
    return decode_image(_content(path), str(path), page)


def count_pages(path: str | os.PathLike[str]) -> int:
    """How many pages an image file has: 1, or those of a TIFF file. DataError where it cannot be read."""
    data = _content(path)
    return max(1, len(_pages(data, str(path)))) if data[:4] in _TIFF_SIGNS else 1


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        return read_bytes(path, "member_bytes", DataError, what=f"image {path}")
    except OSError as error:
        raise DataError(f"image {path}: cannot be read ({error.strerror or error})") from None


def decode_image(data: bytes, name: str, page: int | None = None) -> np.ndarray:
    """Decodes the bytes of an image file.

    Grey becomes three equal channels. 16-bit values are scaled from their full range, 65535 to 255.
    Alpha is dropped: a transparent pixel shows the colour stored under it. The EXIF orientation is
    applied, so boxes refer to the image as viewers show it. Of several frames the first is read.

    Args:
        data: the file.
        name: only for messages.
        page: of a TIFF file, from 0; None where it has one.

    Returns:
        uint8 [H, W, 3], C-contiguous.

    Raises:
        DataError: no bytes, cut off, not an image, floating-point pixels (their range is not known), or several pages
            of which none is chosen.
    """
    image = decode(data, name, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH, page)
    return cv2.cvtColor(_to_uint8(image, name), cv2.COLOR_BGR2RGB)


def decode(data: bytes, name: str, flags: int, page: int | None = None) -> np.ndarray:
    """What OpenCV's `imdecode` makes of an image file under these flags: the one place that calls it.

    Kinds that are common are decoded here, others in a process under limits of memory and time. The picture has the
    size that its header states.

    Raises:
        DataError: as `decode_image` does, but for floating-point pixels.
    """
    if data[:4] in _TIFF_SIGNS:
        data = _of_page(data, name, page)
    header = checked_file(data, name)
    coloured = flags != cv2.IMREAD_UNCHANGED
    if coloured and header.directory is not None and header.directory.sample_bits > _MOST_BITS:
        raise DataError(
            f"image {name}: has samples of {header.directory.sample_bits} bits, whole or float; {_KNOWN_DEPTHS}"
        )
    multiplied = header.directory is not None and header.directory.multiplied
    if header.directory is not None:
        data = shown_as_stored(data, header.directory)
        flags = cv2.IMREAD_UNCHANGED if multiplied else flags
    image = _decoded(data, name, header, flags)
    if sorted(image.shape[:2]) != sorted((header.height, header.width)):  # EXIF may turn it by a quarter
        raise DataError(
            f"image {name}: damaged, its header states {header.height} x {header.width} pixels but it holds "
            f"{image.shape[0]} x {image.shape[1]}"
        )
    if coloured and header.directory is not None and header.directory.white_is_zero and image.dtype == np.uint16:
        image = ~image  # OpenCV does so for 8 bits only
    return _divided(image)[..., :3] if multiplied and image.ndim == 3 and image.shape[2] == 4 else image


def _pages(data: bytes, name: str) -> list[int]:
    try:
        return pages(data)
    except DataError as error:
        raise DataError(f"image {name}: {error}") from None


def _of_page(data: bytes, name: str, page: int | None) -> bytes:
    places = _pages(data, name)
    if page is None and len(places) > 1:
        raise DataError(
            f"image {name}: has {len(places)} pages; split it into a file a page (`tiffsplit`), or give it to `paddock "
            "infer`, which reads each"
        )
    if page is not None and page >= max(1, len(places)):
        raise DataError(f"image {name}: has {len(places)} pages, and none of number {page + 1}")
    return beginning_with(data, places[page or 0]) if places else data


def _decoded(data: bytes, name: str, header: Header, flags: int) -> np.ndarray:
    try:
        if not header.plain:
            return decode_apart(data, flags, _FREE + _GROWTH * header.height * header.width * header.pixel_bytes)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise DataError(f"image {name}: OpenCV cannot decode it ({error.err})") from None
    except DataError as error:
        raise DataError(f"image {name}: cannot be decoded: {error}") from None
    if image is None:
        raise _unknown(data, name)
    return image


def _divided(image: np.ndarray) -> np.ndarray:
    """Colours that were multiplied by alpha, as they were before; a transparent pixel keeps what is stored."""
    most = np.iinfo(image.dtype).max
    alpha = image[..., 3:].astype(np.float32)
    colours = np.where(alpha > 0, image * (most / np.maximum(alpha, 1)), image)
    divided: np.ndarray = np.minimum(np.rint(colours), most).astype(image.dtype)
    return divided


def _unknown(data: bytes, name: str) -> DataError:
    """The error of a file that is damaged, or of another kind."""
    kinds = f"known kinds are {' '.join(IMAGE_SUFFIXES)}"
    if (other := other_kind(data)) is not None:
        return DataError(f"image {name}: is {other}; {kinds}")
    return DataError(
        f"image {name}: damaged, or not an image OpenCV reads ({len(data)} bytes, first {data[:8]!r}); {kinds}"
    )


def checked_file(data: bytes, name: str) -> Header:
    """The header of an image file that is whole by its container; raises as `checked_header` does, or if it is not."""
    if not data:
        raise DataError(f"image {name}: the file is empty (0 bytes)")
    check_complete(data, name)
    return checked_header(data, name)


def checked_header(data: bytes, name: str) -> Header:
    """The header of an image file, before anything is decoded.

    Raises:
        DataError: the header is damaged or of another kind, or the image costs more than the limits of pixels, bytes
            and scans.
    """
    found = picture_header(data)
    if found is None:
        raise _unknown(data, name)
    size = f"image {name}: {found.height} x {found.width}"
    tiles = "" if found.pixels == found.height * found.width else f" in tiles of {found.pixels}"
    check("pixels", found.pixels, f"{size}{tiles} is too many pixels", DataError)
    check("picture_bytes", found.pixels * found.pixel_bytes, f"{size}{tiles} takes too many bytes", DataError)
    if found.kind == "JPEG":
        scans = data.count(_SCAN)
        check("scans", scans, f"image {name}: it has too many scans", DataError)
        check("scan_pixels", scans * found.pixels, f"{size} is too many pixels for {scans} scans", DataError)
    return found


def is_quick_picture(data: bytes) -> bool:
    """Whether a decoder takes tens of milliseconds at most, whatever the file holds: some steps a pixel and a byte.

    So it is for baseline JPEGs of one scan. Each further scan costs as much as the picture.
    """
    header = picture_header(data)
    few = header is not None and header.baseline and header.pixels <= _QUICK_PIXELS and len(data) <= QUICK_BYTES
    return few and data.count(_SCAN) == 1


def checked_size(data: bytes, name: str) -> tuple[int, int]:
    """Height and width of an image file by its header; raises as `checked_header` does."""
    found = checked_header(data, name)
    return found.height, found.width


def encode_image(image: np.ndarray, suffix: str = ".png", quality: int | None = None) -> bytes:
    """Encodes uint8 RGB [H, W, 3], or grey [H, W], as the file kind of `suffix` (`.png`, `.jpg`, ...).

    `quality` is a JPEG's, of 100.
    """
    how = [] if quality is None else [cv2.IMWRITE_JPEG_QUALITY, quality]
    pixels = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(suffix, pixels, how)
    if not done:
        raise DataError(f"encode_image: OpenCV cannot write {image.shape} {image.dtype} as {suffix}")
    return data.tobytes()


def write_image(path: str | os.PathLike[str], image: np.ndarray) -> None:
    """Writes uint8 RGB [H, W, 3]; the kind follows the suffix. Folders are made.

    The file is written beside and renamed, so a crash never leaves half a picture under the real name.
    """
    path = Path(path)
    data = encode_image(image, path.suffix)
    with atomic_file(path) as part:
        part.write_bytes(data)


def _to_uint8(image: np.ndarray, name: str) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return cv2.convertScaleAbs(image, alpha=255.0 / 65535.0)
    raise DataError(f"image {name}: has {image.dtype} pixels; {_KNOWN_DEPTHS}")


def check_complete(data: bytes, name: str) -> None:
    """Raises a DataError when the container says that bytes are missing."""
    if data[:2] == b"\xff\xd8":
        complete = _jpeg_has_end(data)
    elif data[:8] == b"\x89PNG\r\n\x1a\n":
        complete = _png_has_end(data)
    elif data[:4] == b"RIFF" and len(data) >= 12 and data[8:12] == b"WEBP":
        complete = len(data) >= struct.unpack_from("<I", data, 4)[0] + 8
    elif data[:2] == b"BM" and len(data) >= 6:
        complete = len(data) >= struct.unpack_from("<I", data, 2)[0]
    else:
        complete = True
    if not complete:
        raise DataError(f"image {name}: cut off after {len(data)} bytes (its end marker is missing); copy it again")


def _jpeg_has_end(data: bytes) -> bool:
    """Walks the segments up to the first scan, then looks for the end marker FF D9.

    Segments are skipped by their length because an EXIF thumbnail is a JPEG with an end marker of its own;
    inside a scan FF is always followed by 00 or a restart number, so FF D9 can only be the end.
    """
    at = 2
    for _ in range(_MOST_STEPS):
        if at + 4 > len(data):
            break
        if data[at] != 0xFF:
            return data.find(b"\xff\xd9", at) >= 0
        if data[at + 1] == 0xFF:  # fill bytes may precede a marker
            at += 1
        elif data[at + 1] == 0xDA:
            return data.find(b"\xff\xd9", at + 2) >= 0
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return False


def _png_has_end(data: bytes) -> bool:
    """Walks the chunks (length, kind, payload, checksum) until IEND lies fully inside the file."""
    at = 8
    for _ in range(_MOST_STEPS):
        if at + 12 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, at)
        at += 12 + length
        if kind == b"IEND":
            return at <= len(data)
    return False
