"""RowStarts: where the rows of a file's units begin, for logs whose quoted values may hold ends of lines.

Whether a line end ends a row depends on every quote before it, so the file is read through once, natively, when the
first of its units is wanted.
"""

from __future__ import annotations

import os
import threading

from framework import _core
from framework.limits import current

_TAIL = 1 << 16  # bytes read behind a unit, in which its last row nearly always ends


class RowStarts:
    """Bytes of a plain file's units: a row belongs to the unit in which it begins.

    Args:
        native: the schema of the file.
        first: byte of its first row.
        size: bytes of the file.
        unit: bytes of a unit.
    """

    def __init__(self, native: _core.LogSchema, first: int, size: int, unit: int) -> None:
        self._native, self._first, self._size, self._unit = native, first, size, unit
        self._starts: list[int] = []
        self._lock = threading.Lock()  # several threads parse units of one file

    def of(self, fd: int, unit: int) -> tuple[int, int]:
        """The bytes of a unit's rows: [begin, end). Of a row over `limits.line_bytes` just enough to see that."""
        with self._lock:
            if not self._starts:
                self._starts = self._found(fd)
        begin, end = self._starts[unit : unit + 2]
        return begin, max(begin, min(end, self._first + (unit + 1) * self._unit + current().line_bytes + 1))

    def _found(self, fd: int) -> list[int]:
        starts = [self._first]
        for border in range(self._first + self._unit, self._size, self._unit):
            starts.append(starts[-1] if starts[-1] >= border else self._next(fd, starts[-1], border))
        return [*starts, self._size]

    def _next(self, fd: int, row: int, border: int) -> int:
        """Where the first row at or behind `border` begins; one begins at `row`, before it."""
        data = pread(fd, border - row + _TAIL, row)
        while True:
            found = _core.log_row_start(self._native, data, 0, border - row)
            if found >= border - row:
                return row + found
            if row + len(data) >= self._size:
                return self._size
            if len(data) - (border - row) > current().line_bytes:  # it is too long, and ends at the next line end
                return self._behind_line(fd, row + len(data))
            data += pread(fd, 16 * _TAIL, row + len(data))

    def _behind_line(self, fd: int, at: int) -> int:
        while data := os.pread(fd, 16 * _TAIL, at):
            end = data.find(b"\n") + 1
            if end:
                return at + end
            at += len(data)
        return self._size


def pread(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` on, fewer only at the end of the file."""
    data = os.pread(fd, count, offset)
    while len(data) < count and (more := os.pread(fd, count - len(data), offset + len(data))):
        data += more
    return data
