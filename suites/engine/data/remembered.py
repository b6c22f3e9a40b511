"""What was read of files and folders, kept while they stay as they are: a set is opened several times at a start."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")
_SETTLED = 2.0  # seconds since its last change from which on a further change shows in a file's times


class Remembered(Generic[Value]):
    """Values made of files or folders, by their inode, size and times of change.

    What changed less than two seconds ago is not kept: times of files are coarse.

    Args:
        most: how much is kept at most, in units of `weight`; beyond it what was kept first goes first.
        weight: of a value.
    """

    def __init__(self, most: int, weight: Callable[[Value], int] = lambda value: 1) -> None:
        self._most, self._weight = most, weight
        self._values: dict[bytes, Value] = {}
        self._held = 0

    def get(self, path: str, make: Callable[[], Value], unless: Callable[[], bool] = lambda: False) -> Value:
        """The value of what lies at `path`: the one that was kept, else what `make` gives, which is kept then.

        Nothing is kept where there is no file, `make` raises, or `unless` holds.
        """
        before = _stamp(path)
        if before is not None and before in self._values:
            return self._values[before]
        value = make()
        if before is not None and before == _stamp(path) and _is_settled(path) and not unless():
            self._keep(before, value)
        return value

    def _keep(self, stamp: bytes, value: Value) -> None:
        if stamp in self._values:  # by another thread
            return
        self._held += self._weight(value)
        self._values[stamp] = value
        while self._held > self._most and self._values:
            first = next(iter(self._values))
            self._held -= self._weight(self._values.pop(first))


def _stamp(path: str) -> bytes | None:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    return struct.pack("5Q", about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _is_settled(path: str) -> bool:
    about = os.stat(path)
    return time.time() - max(about.st_mtime, about.st_ctime) > _SETTLED
