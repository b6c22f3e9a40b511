"""What the bytes of a picture's file say of it, where decoding each of many thousand would take too long."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from suites.engine.data.files import FileTable
from suites.vision.pictures.images import checked_file, decode_image

_TOLD = (b"\xff\xd8", b"\x89P", b"BM")  # how files of JPEG, PNG and BMP begin; others turn by tags of their own
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
    return Glance(shown_size(data, files.full_name(at)), hashlib.sha256(data).hexdigest())
