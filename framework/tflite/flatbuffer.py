"""Reads FlatBuffers without generated code: every offset, length and vtable is checked against the bytes at hand.

The package `flatbuffers` trusts a file: a negative offset reads from the end, and a length may be anything. Here what
does not lie inside of the file is a CheckpointError, and what is read counts against limits: a small file whose
vectors all lead to one table cannot make the reader work without end.
Format: https://flatbuffers.dev/internals
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from framework.errors import CheckpointError
from framework.limits import Meter, check

_SIGNED, _UNSIGNED, _SHORT = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<H")
_KINDS = {kind: struct.Struct("<" + kind) for kind in "bBhHiIqQf?"}
_TABLE_BYTES = 64  # that a table counts as: what Python makes of it is no smaller


class FlatBuffer:
    """The bytes of a file.

    Args:
        data: of the whole file.
        name: of the file, for messages.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self._meter = Meter(len(data), name)
        self._tables = 0

    def fail(self, text: str) -> CheckpointError:
        """An error that names the file."""
        return CheckpointError(f"{self.name}: {text}")

    def root(self) -> Table:
        """The table that holds all others."""
        return self.table(self.offset(0))

    def span(self, at: int, count: int) -> int:
        """`at` again; raises where `count` bytes from there do not lie in the file."""
        if at < 0 or count < 0 or at + count > len(self.data):
            raise self.fail(f"cut off or damaged: it refers to {count} bytes at {at}, and has {len(self.data)}")
        return at

    def offset(self, at: int) -> int:
        """Where the offset that stands at `at` leads: forward, as all but a vtable's do."""
        (step,) = _UNSIGNED.unpack_from(self.data, self.span(at, 4))
        return self.span(at + step, 4)

    def table(self, at: int) -> Table:
        """The table at `at`."""
        self._tables += 1
        check("nodes", self._tables, f"{self.name}: it has too many tables")
        self._meter.take(_TABLE_BYTES)
        (back,) = _SIGNED.unpack_from(self.data, self.span(at, 4))
        vtable = self.span(at - back, 4)
        (size,) = _SHORT.unpack_from(self.data, vtable)
        (extent,) = _SHORT.unpack_from(self.data, vtable + 2)
        if size < 4 or size % 2:
            raise self.fail(f"damaged: the table at {at} has a directory of {size} bytes")
        self.span(vtable, size)
        self.span(at, extent)
        return Table(self, at, vtable, size, extent)

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Start and length of a vector whose items take `width` bytes; they count against the limit."""
        (count,) = _UNSIGNED.unpack_from(self.data, self.span(at, 4))
        start = self.span(at + 4, count * width)
        self._meter.take(count * width)
        return start, count

    def octets(self, start: int, size: int) -> np.ndarray:
        """Bytes of the file from `start` on; they count against the limit."""
        self._meter.take(size)
        return np.frombuffer(self.data, np.uint8, size, self.span(start, size))


@dataclass(frozen=True)
class Table:
    """A table: its fields by number, as the schema counts them.

    Attributes:
        at: where it starts.
        vtable, size: its directory.
        extent: bytes of the table itself.
    """

    buffer: FlatBuffer
    at: int
    vtable: int
    size: int
    extent: int

    def _place(self, field: int, width: int) -> int:
        """Where a field stands; 0 where it has its default."""
        entry = 4 + 2 * field
        if entry + 2 > self.size:
            return 0
        (step,) = _SHORT.unpack_from(self.buffer.data, self.vtable + entry)
        if step == 0:
            return 0
        if step + width > self.extent:
            raise self.buffer.fail(f"damaged: field {field} of the table at {self.at} lies outside of it")
        return self.buffer.span(self.at + step, width)

    def number(self, field: int, kind: str, default: float = 0) -> int | float | bool:
        """A number; `kind` as the module struct has it."""
        form = _KINDS[kind]
        place = self._place(field, form.size)
        if not place:
            return default
        found: int | float | bool = form.unpack_from(self.buffer.data, place)[0]
        return found

    def whole(self, field: int, kind: str, default: int = 0) -> int:
        """A whole number."""
        return int(self.number(field, kind, default))

    def table(self, field: int) -> Table | None:
        """A table, or None."""
        place = self._place(field, 4)
        return self.buffer.table(self.buffer.offset(place)) if place else None

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        place = self._place(field, 4)
        if not place:
            return []
        start, count = self.buffer.vector(self.buffer.offset(place), 4)
        check("nodes", count, f"{self.buffer.name}: it has too many tables")
        return [self.buffer.table(self.buffer.offset(start + 4 * i)) for i in range(count)]

    def has(self, field: int) -> bool:
        """Whether a field is there."""
        return bool(self._place(field, 1))

    def numbers(self, field: int, dtype: str) -> np.ndarray:
        """A vector of numbers, in the file's own memory; empty where it is not there."""
        kind = np.dtype(dtype).newbyteorder("<")
        place = self._place(field, 4)
        if not place:
            return np.empty(0, kind)
        start, count = self.buffer.vector(self.buffer.offset(place), kind.itemsize)
        return np.frombuffer(self.buffer.data, kind, count, start)

    def text(self, field: int) -> str:
        """A text; what is no UTF-8 is replaced."""
        return self.numbers(field, "uint8").tobytes().decode("utf-8", "replace")
