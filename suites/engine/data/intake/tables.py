"""Rows of delimited text (RFC 4180 and its kin), each with its line; a stray quote costs one row and not the rest.

A value that begins with a quote ends with one; a quote in it is doubled. It may go over several lines. Where the lines
in it all look like rows, or the quote is never closed, the quote is taken for a stray one: its line is wrong, and the
lines behind it are read as they stand. The native reader keeps the same rule (`framework/native/reader/row_start.cc`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.errors import DataError

# How tools write that a value is not known; the empty text is one too. "None" and "-" may be names of classes.
MISSING = frozenset({"#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "\\N"})
MOST_LINES = 1000  # of a value
_DELIMITERS = "\t,;|\x01"
_EXCEL = "sep="  # a first line by which Excel is told the delimiter


@dataclass(frozen=True)
class Dialect:
    """How lines are cut.

    Attributes:
        delimiter: between two columns, one character.
        quote: the character around values that hold the delimiter; None where none is special.
        newlines: whether such a value may hold ends of lines.
        strip: take away spaces around a value.
    """

    delimiter: str = ","
    quote: str | None = '"'
    newlines: bool = True
    strip: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        line: from 1, its first one.
        cells: its values; empty where it is wrong.
        wrong: why it cannot be cut; "" where it can.
    """

    line: int
    cells: list[str]
    wrong: str = ""


class _OpenError(Exception):
    """A value in quotes goes on behind the text."""


def rows_in(lines: Sequence[str], dialect: Dialect, columns: int | None = None) -> Iterator[Row]:
    """The rows that are not empty.

    Args:
        lines: of the text, without their ends.
        dialect: how they are cut.
        columns: of a row; None for as many as the first one has.
    """
    at = 0
    if lines and lines[0].lower().startswith(_EXCEL) and len(lines[0]) == len(_EXCEL) + 1:
        at = 1
    while at < len(lines):
        if not lines[at].strip(" " if dialect.strip else ""):
            at += 1
            continue
        row, end = _row(lines, at, dialect, columns)
        if columns is None and row.cells:
            columns = len(row.cells)
        yield row
        at = end


def _row(lines: Sequence[str], at: int, dialect: Dialect, columns: int | None) -> tuple[Row, int]:
    """The row that begins at a line, and the line behind it."""
    line, quote = lines[at], dialect.quote
    if "\0" in line:
        return Row(at + 1, [], "holds a NUL byte"), at + 1
    if quote is None or quote not in line:
        cells = line.split(dialect.delimiter)
        return Row(at + 1, [cell.strip() for cell in cells] if dialect.strip else cells), at + 1
    text, end = line, at + 1
    while True:
        try:
            return Row(at + 1, _cells(text, dialect, quote)), end
        except ValueError as error:
            return Row(at + 1, [], str(error)), at + 1
        except _OpenError:
            until = _next_with(lines, end, quote) if dialect.newlines else None
            if until is None or until - at > MOST_LINES or _are_rows(lines[at + 1 : until], dialect, columns):
                return Row(at + 1, [], "a quote is opened and not closed"), at + 1
            text = "\n".join([text, *lines[end : until + 1]])
            end = until + 1


def _next_with(lines: Sequence[str], at: int, quote: str) -> int | None:
    """The next line that holds a quote, within the limit."""
    return next((i for i in range(at, min(at + MOST_LINES, len(lines))) if quote in lines[i]), None)


def _are_rows(lines: Sequence[str], dialect: Dialect, columns: int | None) -> bool:
    """Whether all lines look like rows, with as many delimiters, and are too many for that to be chance."""
    if columns is None or columns < 2 or len(lines) < (4 if columns == 2 else 2):
        return False
    return all(line.count(dialect.delimiter) == columns - 1 for line in lines)


def _cells(text: str, dialect: Dialect, quote: str) -> list[str]:
    """The values of a row; _OpenError where one goes on, ValueError where text stands behind a closing quote."""
    found: list[str] = []
    at = 0
    while at <= len(text):
        begin = at
        while dialect.strip and text.startswith(" ", begin):
            begin += 1
        if text.startswith(quote, begin):
            cell, at = _quoted(text, begin, dialect, quote)
        else:
            end = text.find(dialect.delimiter, at)
            end = len(text) if end < 0 else end
            cell, at = text[at:end].strip() if dialect.strip else text[at:end], end
        found.append(cell)
        at += 1
    return found


def _quoted(text: str, at: int, dialect: Dialect, quote: str) -> tuple[str, int]:
    """The value whose opening quote is at `at`, and the place of the delimiter behind it."""
    parts = []
    at += 1
    while True:
        end = text.find(quote, at)
        if end < 0:
            raise _OpenError
        parts.append(text[at:end])
        at = end + 1
        if not text.startswith(quote, at):
            break
        at += 1
    while dialect.strip and text.startswith(" ", at):
        at += 1
    if at < len(text) and text[at] != dialect.delimiter:
        raise ValueError(f"text stands behind the closing quote of a value ({text[at : at + 20]!r})")
    return quote.join(parts), at


def delimiter_of(lines: Sequence[str], default: str = ",") -> str:
    """The character that cuts most lines into the same number of columns; the one that Excel's `sep=` names."""
    if lines and lines[0].lower().startswith(_EXCEL) and len(lines[0]) == len(_EXCEL) + 1:
        return lines[0][-1]
    head = [line for line in lines[:200] if line]

    def agreement(mark: str) -> float:
        counts = Counter(len(row.cells) for row in rows_in(head, Dialect(mark, strip=mark != " ")))
        columns, often = counts.most_common(1)[0] if counts else (1, 0)
        return 0.0 if columns < 2 else often / len(head) + min(columns, 100) * 1e-3

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best) else default


def dialect_in(lines: Sequence[str], delimiter: str | None = None) -> Dialect:
    """How the lines of a table are cut: the delimiter that cuts most alike, and whether quotes are special.

    Between tabs many write texts as they are, with quotes in them. They are special there where taking them so gives
    as many rows, none of them wrong, as taking them as they stand.
    """
    mark = delimiter or delimiter_of(lines)
    if mark != "\t":
        return Dialect(mark)
    plain = list(rows_in(lines, Dialect(mark, None)))
    quoted = list(rows_in(lines, Dialect(mark)))
    alike = len({len(row.cells) for row in plain}) == 1
    worse = any(row.wrong for row in quoted) or (alike and len(quoted) < len(plain))
    return Dialect(mark, None if worse else '"')


def refuse_comments(lines: Sequence[str], dialect: Dialect, path: str) -> None:
    """Raise DataError where lines of comments, such as `# made by a tool`, stand above a table.

    A line of names or values that begins with `#` has as many columns as the rows behind it.
    """
    filled = ((at, line) for at, line in enumerate(lines, start=1) if line.strip())
    number, first = next(filled, (0, ""))
    behind = next(((at, line) for at, line in filled if not line.lstrip().startswith("#")), None)
    if not first.lstrip().startswith("#") or behind is None:
        return
    found, expected = (len(next(rows_in([line], dialect)).cells) for line in (first, behind[1]))
    if found != expected:
        raise DataError(
            f"{path}:{number}: begins with # and has {found} columns, but line {behind[0]} has {expected}: it is taken "
            "for a comment; take such lines away, for example with grep -v '^#'"
        )


def repeated(names: Sequence[str]) -> list[str]:
    """Names of columns that stand more than once."""
    return [name for name, times in Counter(names).items() if times > 1]
