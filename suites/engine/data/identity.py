"""What a data set is, wherever it lies: a digest of its samples' names, their order, file sizes and labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

_MOST_NAMES = 200_000  # of more, evenly spread ones are taken
_MOST_BYTES = 256 << 20  # of an array
_DEPTH = 3  # of objects in a data set, such as its table of boxes


def data_digest(dataset: Any) -> str:
    """SHA-256 of what a data set holds, without the folder that it lies in; empty where it cannot be told.

    That is the case for a stream, and for a data set whose samples have no names.
    """
    name_of = getattr(dataset, "name_of", None)
    try:
        count = len(dataset)
        names = [str(name_of(index)) for index in _some(count)] if name_of is not None else []
    except (TypeError, NotImplementedError):
        return ""
    if not names:
        return ""
    found = hashlib.sha256(str(count).encode())
    above = _folder_above(names)
    sizes: dict[str, int] = {}
    for name in names:
        file = name if os.path.isfile(name) else name.partition(": ")[0]
        if file not in sizes:
            sizes[file] = _size(file)
        found.update(f"\0{name[above:]}\0{sizes[file]}".encode("utf-8", "surrogateescape"))
    for part in _arrays(dataset, _DEPTH):
        found.update(part)
    return found.hexdigest()


def _some(count: int) -> range:
    return range(0, count, max(1, -(-count // _MOST_NAMES)))


def _folder_above(names: list[str]) -> int:
    """Characters of the folder that all names begin with."""
    first, last = min(names), max(names)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first.rfind("/", 0, same) + 1


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except (OSError, ValueError):
        return -1  # inside of an archive, or made


def _arrays(value: Any, depth: int) -> Iterator[bytes]:
    """The arrays that a data set holds, such as labels and boxes, by the names of what holds them."""
    for key, part in sorted(getattr(value, "__dict__", {}).items()):
        if isinstance(part, np.ndarray) and part.dtype != object and not isinstance(part, np.memmap):
            yield f"\0{key}{part.dtype}{part.shape}".encode()
            if part.nbytes <= _MOST_BYTES:
                yield np.ascontiguousarray(part).tobytes()
        elif depth > 1 and hasattr(part, "__dict__") and not callable(part):
            yield from _arrays(part, depth - 1)
