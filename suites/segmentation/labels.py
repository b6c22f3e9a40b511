"""Label maps: PNG files in, uint8 [H, W] out, and back; the numbers in the file are class ids, never colours.

Grey PNGs and PNGs with a palette (Pascal VOC's) are both read as numbers. OpenCV would turn a palette into colours; a
palette image has the same pixel data as a grey one, so it is decoded as one.
PNG: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Literal

import cv2
import numpy as np

from framework.errors import DataError
from suites.vision.pictures.images import check_complete, decode

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3  # colour type in a PNG's header; 0 is grey


Fault = Literal["damaged", "size", "classes", "colours"]


class LabelMapError(DataError):
    """A label file that cannot be used.

    Attributes:
        fault: "damaged", no image at all; "size", not its image's; "classes", numbers or colours that are no class;
            "colours", a picture in colours where ids are expected.
    """

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault


def decode_labels(data: bytes, name: str) -> np.ndarray:
    """Decodes the bytes of a label file (`name` is only for messages).

    Returns:
        uint8 [H, W], the numbers in the file.

    Raises:
        DataError: cut off, no image, an image of colours rather than numbers, or numbers above 255.
    """
    depth, colour = _header(data)
    try:
        labels = decode(_as_grey(data, name) if colour == _PALETTE else data, name, cv2.IMREAD_UNCHANGED)
    except DataError as error:
        raise LabelMapError(f"label map {error}; label maps are PNG files", "damaged") from None
    if labels.ndim == 3:
        labels = _one_channel(labels, name)
    if labels.max(initial=0) > 255:
        text = f"label map {name}: holds the number {labels.max()}; class ids and void are 0 to 255"
        raise LabelMapError(text, "classes")
    labels = labels.astype(np.uint8)
    return labels // (255 // (2**depth - 1)) if depth < 8 else labels  # OpenCV stretches 1, 2 and 4 bits to 0..255


def encode_labels(labels: np.ndarray, palette: Sequence[tuple[int, int, int]]) -> bytes:
    """A PNG of a label map (uint8 [H, W]) whose pixels are the class ids and whose palette shows them in colours.

    Args:
        labels: class ids.
        palette: RGB of each class; ids beyond it, such as void, are black.
    """
    height, width = labels.shape
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = np.reshape(palette, (-1, 3))
    rows = np.concatenate([np.zeros((height, 1), np.uint8), labels], axis=1)  # each begins with filter 0: none
    header = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    kinds = {b"IHDR": header, b"PLTE": colours.tobytes(), b"IDAT": zlib.compress(rows.tobytes()), b"IEND": b""}
    return _SIGNATURE + b"".join(_chunk(kind, payload) for kind, payload in kinds.items())


def check_labels(labels: np.ndarray, num_classes: int, ignore: int, name: str, least: int = 0) -> None:
    """Raises a DataError that names the file and the first label that is neither a class nor `ignore`.

    `least` is the number of the first class in the file, for the message.
    """
    present = np.flatnonzero(np.bincount(labels.reshape(-1), minlength=256))
    strange = [int(label) for label in present if label >= num_classes and label != ignore]
    if strange:
        raise LabelMapError(
            f"label map {name}: holds the label {strange[0] + least}, but there are {num_classes} classes ({least} to "
            f"{num_classes - 1 + least}); correct the classes, or name it in ignore_labels",
            "classes",
        )


def _header(data: bytes) -> tuple[int, int]:
    """Bit depth and colour type of a PNG; of other files, what needs no treatment."""
    if not data.startswith(_SIGNATURE) or len(data) < 26:
        return 8, 0
    return data[24], data[25]


def _as_grey(data: bytes, name: str) -> bytes:
    """A palette PNG as a grey one with the same numbers: other header, no palette. DataError where it is cut off."""
    check_complete(data, name)
    parts = [_SIGNATURE]
    for kind, payload in _chunks(data):
        if kind == b"IHDR":
            payload = payload[:9] + b"\x00" + payload[10:]
        if kind in (b"IHDR", b"IDAT", b"IEND"):
            parts.append(_chunk(kind, payload))
    return b"".join(parts)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def _one_channel(labels: np.ndarray, name: str) -> np.ndarray:
    first: np.ndarray = labels[..., 0]
    if not all(np.array_equal(first, labels[..., i]) for i in range(1, min(3, labels.shape[2]))):
        raise LabelMapError(
            f"label map {name}: is a picture in colours; its pixels must be class ids (one channel, or a palette), or "
            "the data set's kind 'colours' with a palette",
            "colours",
        )
    return first
