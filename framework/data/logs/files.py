"""LogFile: one file of a log, its header, and its units: parts that can be read by themselves.

A plain file has a unit a block of `block_bytes`; a row belongs to the block in which it begins. A compressed file, or
one inside of a zip, is one unit, whose blocks follow each other. A Parquet file has a unit a row group.
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
from framework.data.logs.archives import Member, in_zip
from framework.data.logs.faults import LogFaults
from framework.data.logs.inflate import compression, inflated
from framework.data.logs.reasons import reason
from framework.data.logs.schema import LogSchema
from framework.data.logs.starts import RowStarts, pread
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
    if rows.backwards and not found.first_backwards:
        found.first_backwards = _place(file, parsed, rows.first_backwards)
    found.add(rows.count, kinds, messages, faults)


def _place(file: LogFile, parsed: Parsed, offset: int) -> str:
    """File and line of a byte of a block; file and row group of Parquet; file and byte where lines are not counted."""
    if file.schema.kind == "parquet":
        return f"{file.path}: row group {parsed.start}"
    line = None if file.compressed else file.line_of(parsed.start + offset)
    return f"{file.path}:{f'byte {parsed.start + offset}' if line is None else line}"


def _message(file: LogFile, parsed: Parsed, fault: tuple[str, int, int, int, int, bytes]) -> str:
    line, offset = fault[3:5]
    why = reason(fault, file.columns, file.schema.fields_of(file.columns))
    if file.schema.kind == "parquet":
        return f"{file.path}: row group {parsed.start}, row {line}: {why}"
    first = parsed.line if parsed.line is not None else file.line_of(parsed.start)
    where = f"byte {parsed.start + offset}" if first is None else str(first + line)
    return f"{file.path}:{where}: {why}"


class TextBlock(NamedTuple):
    """Whole rows of a file: `data`, and the number of their first line, from 1."""

    data: bytes
    line: int


class LogFile:
    """One file of a log, as it was when this object was made.

    Args:
        path: the file; `.gz` and `.zst` are compressed, `logs.zip/day.csv` is inside of a zip.
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
            self.size = self._size()
            if schema.kind == "parquet":
                self._groups = parquet.groups(path, schema)
            else:
                self._read_header()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
        self.native = schema.native(self.columns, str(path))
        self._starts = RowStarts(self.native, self.first_byte, self.size, block_bytes) if self._newlines else None

    def _size(self) -> int:
        if in_zip(self.path):
            if self.schema.kind == "parquet":
                raise DataError(f"{self.path}: a Parquet log is not read inside of a zip; unpack the zip")
            return Member(self.path).size
        if not self.path.is_file():
            raise FileNotFoundError(f"{self.path}: there is no such file")
        return self.path.stat().st_size

    @property
    def _newlines(self) -> bool:
        return bool(self.schema.fields["newlines"])

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
            with open(self.path, "rb", buffering=0) as file:
                self._check_size(file.fileno())
                at, data, first, last = self._unit(file.fileno(), unit)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read any more ({error.strerror or error})") from None
        line = self.first_line if unit == 0 else None
        return Parsed(_core.parse_log(self.native, data, first, last), at + first, line)

    def whole(self, text: bytes, begin: int = 0) -> int:
        """Where the last whole row of `text` ends; its first begins at `begin`."""
        if self._newlines:
            return _core.log_row_start(self.native, text, begin, len(text)) if begin < len(text) else 0
        return text.rfind(b"\n") + 1

    def parse_text(self, block: TextBlock) -> Parsed:
        """Rows of a block of `blocks`."""
        return Parsed(_core.parse_log(self.native, block.data, 0, len(block.data)), 0, block.line)

    def blocks(self) -> Iterator[TextBlock]:
        """A compressed file's whole rows, some `block_bytes` at a time, behind its header."""
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
                cut = self.whole(text, self.first_byte if first else 0)
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
            text = text[: self.whole(text, self.first_byte if first else 0)]
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

    def _check_size(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        if size != self.size:
            why = "it is still being written. Wait for its done-file (LogFolders), or follow it (LogTail)"
            raise DataError(
                f"{self.path}: it had {self.size} bytes and now has {size}: "
                + (why if size > self.size else "it was cut, or is written anew")
            )

    def _unit(self, fd: int, unit: int) -> tuple[int, bytes, int, int]:
        """A byte of the file, what follows from there, and where in that a unit's rows begin and end."""
        if self._starts is not None:
            begin, end = self._starts.of(fd, unit)
            data = pread(fd, end - begin, begin)
            return begin, data, 0, len(data)
        begin = self.first_byte + unit * self._block
        return self._lines(fd, begin, min(begin + self._block, self.size))

    def _lines(self, fd: int, begin: int, end: int) -> tuple[int, bytes, int, int]:
        """As `_unit`, for the lines that begin in [begin, end).

        With the byte before `begin`, unless the file's rows begin there: it tells whether a line begins at `begin`.
        """
        base = begin - (begin > self.first_byte)
        data = pread(fd, end - base + _TAIL, base)
        first = data.find(b"\n") + 1 if base < begin else 0
        if (first == 0 and base < begin) or base + first >= end:  # no line begins here
            return base, data, 0, 0
        last = data.find(b"\n", end - 1 - base) + 1
        while not last and base + len(data) < self.size and base + len(data) - end <= current().line_bytes:
            more = pread(fd, 16 * _TAIL, base + len(data))
            if not more:
                break
            last = more.find(b"\n") + 1
            last += len(data) if last else 0
            data += more
        return base, data, first, last or len(data)

    def _read_header(self) -> None:
        head = self._head()
        if head.startswith(_BOM):
            self.first_byte, head = len(_BOM), head[len(_BOM) :]
        wanted = self.schema.fields["header"]
        if self.schema.kind != "csv" or not wanted:
            return
        head = head[: self._first_row(head)]
        check("line_bytes", len(head), f"{self.path}:1: the header's bytes", DataError)
        names = self._names(head)
        if wanted == "maybe" and names != self.schema.columns:
            return
        if len(set(names)) < len(names) or not names:
            raise DataError(f"{self.path}:1: the header names {names[:40]}; each column needs a name of its own")
        self.columns = names
        self.first_byte += len(head)
        self.first_line = 1 + head.count(b"\n")

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

    def _head(self) -> bytes:
        """The file's first bytes: a whole row, if it has one within the limit."""
        budget = len(_BOM) + current().line_bytes + 1
        if not self.compressed:
            with open(self.path, "rb") as file:
                return file.read(budget) if self._newlines else file.readline(budget)
        head = b""
        for made in inflated(self.path):
            head += made
            if len(head) >= budget or (b"\n" in made and not self._newlines):
                break
        return head[:budget]

    def _first_row(self, head: bytes) -> int:
        """Where the first row ends."""
        if self._newlines:
            return _core.log_row_start(self.schema.native(self.schema.columns), head, 0, 1) or len(head)
        return head.find(b"\n") + 1 or len(head)

    def _behind_header(self, text: bytes, line: int, first: bool) -> tuple[bytes, int, bool]:
        if first:
            return text[self.first_byte :], line + self.first_line - 1, False
        return text, line, False
