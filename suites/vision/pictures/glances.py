"""What the bytes of a picture's file say of it, where decoding each of many thousand would take too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framework import limits, many_files
from framework.errors import DataError
from suites.engine.data.files import FileTable, digest_of
from suites.vision.pictures.images import checked_file, decode_image

_TOLD = (b"\xff\xd8", b"\x89P", b"BM")  # how files of JPEG, PNG and BMP begin; others turn by tags of their own
_BLOCK = 4096  # files that are read at once
_TURNED = (b"Exif", b"eXIf")  # a picture with such tags may be turned when it is decoded


@dataclass(frozen=True)
class Glance:
    """A picture file that is whole by its container and its header.

    Attributes:
        size: (H, W) of the picture as it is decoded.
        digest: of the file's bytes.
    """

    size: tuple[int, int]
    digest: str


def may_turn(data: bytes) -> bool:
    """Whether a decoder may turn the picture of a file, by the bytes that its header and its tags lie in."""
    return data[:2] not in _TOLD or any(mark in data for mark in _TURNED)


def shown_size(data: bytes, name: str) -> tuple[int, int]:
    """(H, W) of a picture file as it is decoded; only one that may be turned is decoded for that.

    Raises:
        DataError: it is cut off, or no picture that is read. Damage between its header and its end stays unseen.
    """
    header = checked_file(data, name)
    if not may_turn(data):
        return header.height, header.width
    height, width = decode_image(data, name).shape[:2]
    return height, width


def glance(files: FileTable, at: int) -> Glance:
    """What the file of a picture says; a DataError says why it cannot be read, or as `shown_size` does."""
    data = files.read(at)
    return Glance(shown_size(data, files.full_name(at)), digest_of(data).hex())


def glances(files: FileTable, places: np.ndarray) -> Iterator[Glance | DataError]:
    """The `glance` of each file, or the error that it raises; `places`, int64, are indices of the files.

    Plain JPEG and PNG files of a folder are read many at once.
    """
    for first in range(0, len(places), _BLOCK):
        block = places[first : first + _BLOCK]
        for at, found in zip(block.tolist(), _plain(files, block), strict=True):
            yield found or _glanced(files, at)


def _glanced(files: FileTable, at: int) -> Glance | DataError:
    try:
        return glance(files, at)
    except DataError as error:
        return error


def _plain(files: FileTable, places: np.ndarray) -> Iterator[Glance | None]:
    """What plain pictures say; None for any other file, and for one that is over a limit."""
    paths, allowed = files.paths(), limits.current()
    if paths is None:
        yield from [None] * len(places)
        return
    sizes, digests, headers = many_files.pictures(paths, places, allowed.member_bytes)
    heights, widths, pixel_bytes, scans = headers.astype(np.float64).T  # whose products do not overflow
    pixels = heights * widths
    plain = (sizes >= 0) & (pixels > 0) & (pixels <= allowed.pixels) & (pixels * pixel_bytes <= allowed.picture_bytes)
    plain &= (scans <= allowed.scans) & (scans * pixels <= allowed.scan_pixels)
    text, step = digests.tobytes().hex(), 2 * digests.shape[1]
    for row, (is_plain, (height, width)) in enumerate(zip(plain.tolist(), headers[:, :2].tolist(), strict=True)):
        yield Glance((height, width), text[step * row : step * (row + 1)]) if is_plain else None
