"""TIFF files written tag by tag, honest ones and others."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

_FORMS = {1: "B", 3: "H", 4: "I"}
DATA = -1  # a value that stands for where the pixels begin


def tiff(tags: Mapping[int, tuple[int, Sequence[int]]], pixels: bytes, order: str = "<") -> bytes:
    """A file of one directory; `tags` are (field type, values) by number."""
    sizes = {tag: struct.calcsize("=" + _FORMS[kind]) * len(values) for tag, (kind, values) in tags.items()}
    end = 8 + 2 + 12 * len(tags) + 4
    start = end + sum(size for size in sizes.values() if size > 4)
    rows, behind = b"", b""
    for tag, (kind, values) in sorted(tags.items()):
        raw = struct.pack(order + _FORMS[kind] * len(values), *(start if v == DATA else v for v in values))
        place = struct.pack(order + "I", end + len(behind)) if len(raw) > 4 else raw.ljust(4, b"\0")
        behind += raw if len(raw) > 4 else b""
        rows += struct.pack(order + "HHI", tag, kind, len(values)) + place
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(order + "HIH", 42, 8, len(tags)) + rows + bytes(4) + behind + pixels


def strips(image: np.ndarray, extra: int | None = None, order: str = "<", **changes: tuple[int, list[int]]) -> bytes:
    """A baseline file of one strip; `extra` says what alpha is, `changes` are tags, as `t278=(4, [9])`."""
    height, width, samples = image.shape
    pixels = image.astype(image.dtype.newbyteorder(order)).tobytes()
    tags = {
        256: (3, [width]),
        257: (3, [height]),
        258: (3, [image.itemsize * 8] * samples),
        259: (3, [1]),
        262: (3, [2 if samples > 2 else 1]),
        273: (4, [DATA]),
        277: (3, [samples]),
        278: (4, [height]),
        279: (4, [len(pixels)]),
        284: (3, [1]),
    }
    tags |= {} if extra is None else {338: (3, [extra])}
    tags |= {int(name[1:]): value for name, value in changes.items()}
    return tiff(tags, pixels, order)


def tiles(image: np.ndarray, size: tuple[int, int], pixels: bytes | None = None) -> bytes:
    """A file of one tile of `size`, height and width, with the image in its corner."""
    height, width, samples = image.shape
    if pixels is None:
        tile = np.zeros((*size, samples), image.dtype)
        tile[:height, :width] = image
        pixels = tile.tobytes()
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, [8] * samples), 259: (3, [1]), 262: (3, [2])}
    tags |= {277: (3, [samples]), 284: (3, [1]), 322: (4, [size[1]]), 323: (4, [size[0]])}
    return tiff(tags | {324: (4, [DATA]), 325: (4, [len(pixels)])}, pixels)
