"""What the bytes of a picture's file say of it, where decoding each of many thousand would take too long."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from suites.engine.data.sources import FileTable
from suites.vision.images import checked_file, decode_image

_HEAD = 1 << 16  # bytes in which tags lie
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
    """Whether a picture file, or its first bytes, has tags by which a decoder may turn it."""
    head = data[:_HEAD]
    return any(mark in head for mark in _TURNED)


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
