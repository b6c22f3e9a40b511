"""LogFile: one file of a log, its header, and its units: parts that can be read by themselves.

A plain file has a unit a block of `block_bytes`; a line belongs to the block in which it begins. A compressed file is
one unit, whose blocks follow each other. A Parquet file has a unit a row group.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from framework import _core
from framework.data.faults import FaultPolicy
from framework.data.logs import parquet
from framework.data.logs.faults import LogFaults, describe
from framework.data.logs.inflate import compression, inflated
from framework.data.logs.schema import LogSchema
from framework.errors import DataError
from framework.limits import check, current

_BOM = b"\xef\xbb\xbf"
_TAIL = 1 << 16  # bytes read behind a block, in which its last line nearly always ends


class Parsed(NamedTuple):
    """Rows of a block, and where it is in its file.

    Args:
        rows: of the block.
        start: its byte; the number of a row group.
        line: number of its first line, from 1; None if not known.
    """

    rows: _core.LogRows
    start: int
    line: int | None


def tell(found: LogFaults, faults: FaultPolicy, file: LogFile, parsed: Parsed) -> None:
    """Add the bad rows of a block to `found`; raise DataError where there are too many."""
    rows = parsed.rows
    kinds = rows.faults | ({"backwards": rows.backwards} if rows.backwards else {})
    wanted = found.shown - len(found.messages) if kinds else 0
    messages = [_message(file, parsed, fault) for fault in rows.shown[: max(0, wanted)]]
    found.add(rows.count, kinds, messages, faults)


def _message(file: LogFile, parsed: Parsed, fault: tuple[str, int, int, int, int, bytes]) -> str:
    kind, column, count, line, offset, text = fault
    name = file.columns[column] if column >= 0 else ""
    reason = describe(kind, name, count, text, len(file.columns))
    if file.schema.kind == "parquet":
        return f"{file.path}: row group {parsed.start}, row {line}: {reason}"
    first = parsed.line if parsed.line is not None else file.line_of(parsed.start)
    where = f"byte {parsed.start + offset}" if first is None else str(first + line)
    return f"{file.path}:{where}: {reason}"


class TextBlock(NamedTuple):
    """Whole lines of a file: `data`, and the number of the first, from 1."""

    data: bytes
    line: int


class LogFile:
    """One file of a log, as it was when this object was made.

    Args:
        path: the file; `.gz` and `.zst` are compressed.
        schema: what is read.
        block_bytes: of text that is parsed at once.

    Raises DataError for a file that cannot be read or whose header does not fit.
    """

    def __init__(self, path: Path, schema: LogSchema, block_bytes: int) -> None:
        self.path, self.schema, self._block = path, schema, block_bytes
        self.compressed = schema.kind != "parquet" and compression(path) is not None
        self.columns = schema.columns
        self.first_byte = 0  # of the first row, and its line's number
        self.first_line = 1
        try:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: there is no such file")
            self.size = path.stat().st_size
            if schema.kind == "parquet":
                self._groups = parquet.groups(path, schema)
            else:
                self._read_header()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
        self.native = schema.native(self.columns, str(path))

    @property
    def units(self) -> int:
        """How many units the file has."""
        if self.schema.kind == "parquet":
            return self._groups
        if self.compressed:
            return 1
        return -(-(self.size - self.first_byte) // self._block)

    def parse(self, unit: int) -> Parsed:
        """Rows of a unit of a file that is not compressed.

        Raises DataError where the file is gone, or is no longer as long as it was.
        """
        try:
            if self.schema.kind == "parquet":
                return Parsed(parquet.parse(self.path, self.schema, self.native, unit), unit, None)
            begin = self.first_byte + unit * self._block
            data, first, last = self._lines(begin, min(begin + self._block, self.size))
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read any more ({error.strerror or error})") from None
        line = self.first_line if unit == 0 else None
        return Parsed(_core.parse_log(self.native, data, first, last), begin - (unit > 0) + first, line)

    def parse_text(self, block: TextBlock) -> Parsed:
        """Rows of a block of `blocks`."""
        return Parsed(_core.parse_log(self.native, block.data, 0, len(block.data)), 0, block.line)

    def blocks(self) -> Iterator[TextBlock]:
        """A compressed file's whole lines, some `block_bytes` at a time, behind its header."""
        budget = current().line_bytes
        left, line, first = b"", 1, True
        pieces: list[bytes] = []
        skipping = False  # the rest of a line that is too long
        error = None
        try:
            for made in inflated(self.path):
                if skipping:
                    end = made.find(b"\n") + 1
                    if not end:
                        continue
                    made, skipping = made[end:], False
                pieces.append(made)
                if sum(map(len, pieces)) < self._block:
                    continue
                text = b"".join([left, *pieces])
                pieces = []
                cut = text.rfind(b"\n") + 1
                left, text = text[cut:], text[:cut]
                if len(left) > budget:
                    text, left, skipping = text + left[: budget + 1], b"", True
                if text:
                    text, line, first = self._behind_header(text, line, first)
                    yield TextBlock(text, line)
                    line += text.count(b"\n") + skipping
        except DataError as caught:
            error = caught
        text = b"".join([left, *pieces])
        if error is not None:  # a line that was cut is no row
            text = text[: text.rfind(b"\n") + 1]
        text, line, first = self._behind_header(text, line, first)
        if text:
            yield TextBlock(text, line)
        if error is not None:
            raise error

    def line_of(self, offset: int) -> int | None:
        """Number of the line at a byte of a plain file, from 1; None where counting would take too long."""
        if offset > 1 << 32:
            return None
        lines, left = 1, offset
        with open(self.path, "rb") as file:
            while left > 0 and (data := file.read(min(left, 1 << 22))):
                lines += data.count(b"\n")
                left -= len(data)
        return lines

    def _lines(self, begin: int, end: int) -> tuple[bytes, int, int]:
        """Bytes that hold the lines which begin in [begin, end), and where in them they begin and end.

        With the byte before `begin`, unless the file's rows begin there: it tells whether a line begins at `begin`.
        """
        base = begin - (begin > self.first_byte)
        with open(self.path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != self.size:
                why = "it is still being written. Wait for its done-file (LogFolders), or follow it (LogTail)"
                raise DataError(
                    f"{self.path}: it had {self.size} bytes and now has {size}: "
                    + (why if size > self.size else "it was cut, or is written anew")
                )
            data = _pread(file.fileno(), end - base + _TAIL, base)
            first = data.find(b"\n") + 1 if base < begin else 0
            if (first == 0 and base < begin) or base + first >= end:  # no line begins here
                return data, 0, 0
            last = data.find(b"\n", end - 1 - base) + 1
            while not last and base + len(data) < size and base + len(data) - end <= current().line_bytes:
                more = _pread(file.fileno(), 16 * _TAIL, base + len(data))
                if not more:
                    break
                last = more.find(b"\n") + 1
                last += len(data) if last else 0
                data += more
        return data, first, last or len(data)

    def _read_header(self) -> None:
        head = self._first_line()
        if head.startswith(_BOM):
            self.first_byte, head = len(_BOM), head[len(_BOM) :]
        wanted = self.schema.fields["header"]
        if self.schema.kind != "csv" or not wanted:
            return
        names = self._names(head)
        if wanted == "maybe" and names != self.schema.columns:
            return
        if len(set(names)) < len(names) or not names:
            raise DataError(f"{self.path}:1: the header names {names[:40]}; each column needs a name of its own")
        self.columns = names
        self.first_byte += len(head)
        self.first_line = 2

    def _names(self, head: bytes) -> list[str]:
        delimiter, quote = self.schema.fields["delimiter"], self.schema.fields["quote"]
        lines = [head.decode("utf-8", "replace").rstrip("\r\n")]
        if quote:
            found = csv.reader(lines, delimiter=delimiter, quotechar=quote)
        else:
            found = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        try:
            return [name.strip() for name in next(found, [])]
        except csv.Error as error:
            raise DataError(f"{self.path}:1: its header cannot be read ({error})") from None

    def _first_line(self) -> bytes:
        budget = current().line_bytes
        if self.compressed:
            head = b""
            for made in inflated(self.path):
                head += made
                if b"\n" in made or len(head) > budget:
                    break
        else:
            with open(self.path, "rb") as file:
                head = file.readline(budget + 1)
        line = head[: head.find(b"\n") + 1 or len(head)]
        if self.schema.kind == "csv" and self.schema.fields["header"]:
            check("line_bytes", len(line), f"{self.path}:1: the header's bytes", DataError)
        return line

    def _behind_header(self, text: bytes, line: int, first: bool) -> tuple[bytes, int, bool]:
        if first:
            return text[self.first_byte :], line + self.first_line - 1, False
        return text, line, False


def _pread(fd: int, count: int, offset: int) -> bytes:
    """`count` bytes from `offset` on, fewer only at the end of the file."""
    data = os.pread(fd, count, offset)
    while len(data) < count and (more := os.pread(fd, count - len(data), offset + len(data))):
        data += more
    return data
