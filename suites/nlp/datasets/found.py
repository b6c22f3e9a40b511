"""What a file of labelled texts holds: its rows, whatever its format, and which columns are the text and the label."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.errors import ConfigError, DataError
from suites.engine.data.intake.naming import ending
from suites.engine.data.intake.tables import MISSING, Row, dialect_in, refuse_comments, repeated, rows_in
from suites.engine.data.intake.texts import decoded, json_in, lines_of, numbered_lines
from suites.engine.data.skipping import OtherKindError
from suites.engine.names import did_you_mean, listing
from suites.nlp.datasets.base import ENCODING, parse_json
from suites.nlp.datasets.packed import read_packed, unpacked_name

_log = logging.getLogger(__name__)
JSON_LINES = (".jsonl", ".ndjson", ".jsonlines")
TABLES = (".csv", ".tsv", ".tab", *JSON_LINES, ".json")
# Names that people give to the columns, the plainest first.
TEXTS = ("text", "text_a", "sentence", "review", "comment", "content", "message", "tweet", "document", "utterance",
         "body", "review_text", "reviewtext", "question", "headline", "title", "v2")  # fmt: skip
LABELS = ("label", "labels", "class", "target", "category", "sentiment", "intent", "rating", "stars", "polarity",
          "topic", "score", "y", "emotion", "tag", "v1")  # fmt: skip
_MOST_CLASSES = 500
_TRANSLATION = "translation"
_FEW = 0.2  # different values a row, up to which a column of more than a few rows is one of labels
_NAME = 30  # characters of a column's name at most
_ENDS = (".", "!", "?", ",", ";", "…", "。", "！", "？")  # of sentences, and of no name


@dataclass(frozen=True)
class Table:
    """Rows of a file.

    Attributes:
        path: the file.
        names: of the columns; "c0", "c1", ... where the file has none.
        rows: (line, cells) of each row; a cell is None where a value is no text or number.
        wrong: why rows cannot be read, by line.
        languages: those columns that stood inside of Hugging Face's `{"translation": {"en": ..., "de": ...}}`.
    """

    path: str
    names: tuple[str, ...]
    rows: list[tuple[int, Sequence[str | None]]]
    wrong: dict[int, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()

    def column(self, name: str) -> list[str]:
        """The values of a column that are known."""
        at = self.names.index(name)
        return [cell for _, cells in self.rows if (cell := cells[at]) is not None and not is_missing(cell)]


@dataclass(frozen=True)
class Columns:
    """Which columns are what."""

    text: str
    label: str
    pair: str | None = None


def is_missing(cell: str | None) -> bool:
    """Whether a cell says that a value is not known."""
    return cell is None or not cell.strip() or cell.strip() in MISSING


def read_table(path: str, encoding: str | None = None) -> Table:
    """The rows of a CSV, TSV, JSON or JSON-lines file, also inside a zip, or `.gz`; DataError where it is none."""
    return table_of(read_packed(path), unpacked_name(path), encoding)


def texts_in(path: str, columns: Sequence[str] = ()) -> Iterator[str]:
    """The lines of a text file; of a table the cells of `columns`, or of all where none is named.

    Raises ConfigError for a column that is not there.
    """
    data, name = read_packed(path), unpacked_name(path)
    if ending(name) not in TABLES:
        if columns:
            raise ConfigError(f"{path}: is no table, so it has no columns; take --column away")
        yield from (line for _, line in numbered_lines(data, path))
        return
    table = table_of(data, name)
    for column in columns:
        if column not in table.names:
            raise ConfigError(f"{path}: has no column '{column}'; there are {listing(table.names)}")
    for column in columns or table.names:
        yield from table.column(column)


def table_of(data: bytes, path: str, encoding: str | None = None, known: Collection[str] = ()) -> Table:
    """The rows of a file of these bytes, whose ending says what it is; see `read_table`.

    `known` are names of columns, in small letters, by which a first line of names is told, beside `TEXTS` and `LABELS`.
    """
    if ending(path) == ".json":
        whole = _whole_json(data, path)
        if whole is not None:
            return _objects(path, [(at + 1, row) for at, row in enumerate(whole)])
    text = decoded(data, path, encoding, ENCODING)
    lines = lines_of(text)
    if ending(path) in (*JSON_LINES, ".json"):
        return _objects(path, _parsed(path, lines))
    return _delimited(path, lines, {*TEXTS, *LABELS, *known})


def _whole_json(data: bytes, path: str) -> list[Any] | None:
    """The objects of a JSON file that is one list; None for JSON lines."""
    try:
        value = json_in(data, path)
    except DataError:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):  # a list that is malformed
            raise
        return None
    return value if isinstance(value, list) else None


def _parsed(path: str, lines: Sequence[str]) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                found.append((number, parse_json(f"{path}:{number}", line)))
            except DataError as error:
                found.append((number, str(error)))
    return found


def _objects(path: str, values: Sequence[tuple[int, Any]]) -> Table:
    """JSON objects as rows; what is none is wrong."""
    names: dict[str, None] = {}
    languages: dict[str, None] = {}
    for _, value in values:
        if isinstance(value, dict):
            languages.update(dict.fromkeys(_inside(value)))
            names.update(dict.fromkeys(_spread(value)))
    rows: list[tuple[int, Sequence[str | None]]] = []
    wrong: dict[int, str] = {}
    for number, value in values:
        if isinstance(value, dict):
            if twice := [name for name in _inside(value) if name in value]:
                raise DataError(f"{path}:{number}: '{twice[0]}' is beside '{_TRANSLATION}' and in it; rename one")
            spread = _spread(value)
            rows.append((number, [_plain(spread.get(name)) for name in names]))
        else:
            kind = type(value).__name__
            wrong[number] = (
                value if isinstance(value, str) and path in value else f"{path}:{number}: is a {kind}, no object"
            )
    return Table(path, tuple(names), rows, wrong, tuple(languages))


def _inside(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is inside of Hugging Face's `translation`."""
    found = row.get(_TRANSLATION)
    return found if isinstance(found, dict) else {}


def _spread(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with the texts of its `translation` in the place of that."""
    inside = _inside(row)
    return {**{name: value for name, value in row.items() if name != _TRANSLATION}, **inside} if inside else row


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return json.dumps(value)
    return str(value) if isinstance(value, (str, int, float)) else None


def _delimited(path: str, lines: Sequence[str], known: Collection[str]) -> Table:
    dialect = dialect_in(lines)
    refuse_comments(lines, dialect, path)
    found = list(rows_in(lines, dialect))
    whole = [row for row in found if not row.wrong]
    if not whole:
        raise DataError(f"{path}: the file is empty" if not found else f"{path}:{found[0].line}: {found[0].wrong}")
    names, rest = _header(path, whole, known)
    rows: list[tuple[int, Sequence[str | None]]] = []
    wrong = {row.line: f"{path}:{row.line}: {row.wrong}" for row in found if row.wrong}
    for row in rest:
        if len(row.cells) == len(names):
            rows.append((row.line, row.cells))
        else:
            wrong[row.line] = f"{path}:{row.line}: has {len(row.cells)} columns but the file has {len(names)}"
    return Table(path, names, rows, wrong)


def _header(path: str, rows: Sequence[Row], known: Collection[str]) -> tuple[tuple[str, ...], Sequence[Row]]:
    """The names of the columns, and the rows behind them; a first line that may be either is told."""
    first = [cell.strip() for cell in rows[0].cells]
    is_known = any(name.lower() in known for name in first)
    columns = list(zip(*(row.cells for row in rows[1:] if len(row.cells) == len(first)), strict=True))
    repeats = any(cell and cell in column for cell, column in zip(first, columns, strict=False))
    names = all(len(cell) <= _NAME and not _is_number(cell) for cell in first)
    if is_known and names:
        return tuple(first), rows[1:]
    if names and not repeats and len(set(first)) == len(first) and not any(cell.endswith(_ENDS) for cell in first):
        _log.warning(
            "%s:%d: is taken for the names of the columns (%s), as none of them stands in the rows behind it; if it is "
            "a row, put a line of names above it",
            *(path, rows[0].line, listing(first)),
        )
        return tuple(first), rows[1:]
    return tuple(f"c{at}" for at in range(len(first))), rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def columns_of(table: Table, text: str | None, label: str | None, pair: str | None = None) -> Columns:
    """Which columns of a file are what: those that are named, else by their names and values.

    Raises:
        ConfigError: there is no such column, or several could be the one.
        DataError: no column could be it.
    """
    for name in (text, label, pair):
        if name is not None:
            _expect(table, name)
    values = {name: table.column(name) for name in table.names if name and name not in repeated(table.names)}
    found_label = label or _label(table, {n: v for n, v in values.items() if n not in (text, pair)})
    found_text = text or _text(table, {n: v for n, v in values.items() if n not in (found_label, pair)})
    others = [name for name in table.names if name not in (found_text, found_label, pair)]
    _log.info(
        "%s: texts are in column '%s', labels in column '%s' (%d different)%s",
        *(table.path, found_text, found_label, len(set(values.get(found_label, [])))),
        f"; not read: {listing(others)}" if others else "",
    )
    return Columns(found_text, found_label, pair)


def _expect(table: Table, name: str) -> None:
    if name not in table.names:
        hint = did_you_mean(name, table.names) or f"; it has {listing(table.names)}"
        raise ConfigError(f"{table.path}: no column is called '{name}'{hint}")
    if table.names.count(name) > 1:
        count = table.names.count(name)
        raise ConfigError(f"{table.path}: {count} columns are called '{name}'; rename all but one")


def _label(table: Table, values: Mapping[str, Sequence[str]]) -> str:
    few = [name for name, column in values.items() if _is_label(column)]
    named = [name for name in few if name.lower() in LABELS]
    candidates = named or [name for name in few if name.lower() not in TEXTS]
    plainest = [name for name, column in values.items() if name.lower() in ("label", "labels") and _are_few(column)]
    if len(plainest) == 1:
        return plainest[0]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ConfigError(
            f"{table.path}: the columns {listing(candidates)} could all be the label; say which with label: NAME"
        )
    raise OtherKindError(
        f"{table.path}: no column has few different values, so none can be the label; it has {listing(table.names)}; "
        "say which with label: NAME"
    )


def _is_label(column: Sequence[str]) -> bool:
    """Whether values can be classes: at least two, few of them, and most of them again and again."""
    return 2 <= len(set(column)) < len(column) and _are_few(column)


def _are_few(column: Sequence[str]) -> bool:
    """Whether values are short and few, be it one."""
    different = set(column)
    few = len(different) <= max(2, min(_MOST_CLASSES, _FEW * len(column))) or (
        len(different) <= 20 and 2 * len(different) <= len(column)
    )
    return bool(different) and few and all(len(value) <= 60 for value in different)


def _text(table: Table, values: Mapping[str, Sequence[str]]) -> str:
    words = {n: v for n, v in values.items() if v and not all(map(_is_number, v))}
    for known in TEXTS:
        named = [name for name in words if name.lower() == known]
        if len(named) == 1:
            return named[0]
    if not words:
        raise OtherKindError(
            f"{table.path}: no column holds texts; it has {listing(table.names)}; say which with text: NAME"
        )
    lengths = {name: sum(map(len, column)) / len(column) for name, column in words.items()}
    first, *rest = sorted(lengths, key=lambda name: -lengths[name])
    if rest and lengths[rest[0]] > 0.7 * lengths[first]:
        raise ConfigError(
            f"{table.path}: the columns {listing([first, rest[0]])} could both be the text; say which with text: NAME"
        )
    return first
