"""Labelled texts and pairs: Tsv (columns by name or place) and JsonLines; texts without labels: TextLines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.data.intake.tables import Dialect, Row, delimiter_of, repeated, rows_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Labelled, TextDataset, parse_json, read_lines

_log = logging.getLogger(__name__)
_NEGATIVE = "negative"  # with a number, the role of a column


class RowDataset(TextDataset[Labelled]):
    """Labelled texts or pairs of one file."""

    example_type: ClassVar[type] = Labelled

    def _hold_rows(self, path: str, rows: Iterable[tuple[int, Labelled]], label: str | None = None) -> None:
        """Holds the examples of a file, each with its line; `label` is where their labels stand, if they have any."""
        numbered = list(rows)
        examples = [example for _, example in numbered]
        labels = [example.label for example in examples] if label else []
        texts = [(number, each.text, each.text if each.pair is None else each.pair) for number, each in numbered]
        empty = [number for number, first, second in texts if not (first.strip() and second.strip())]
        if empty:
            _log.warning(
                "%s: %d of %d rows have an empty text (the first: line %d), of which nothing can be learned; take them "
                "out, or fill them",
                *(path, len(empty), len(examples), empty[0]),
            )
        self._hold(path, examples, [str(number) for number, _ in numbered], labels)

    def texts(self) -> Iterator[str]:
        """Texts and second texts."""
        for example in self.examples:
            yield example.text
            if example.pair is not None:
                yield example.pair
            yield from example.negatives


@register("dataset")
class Tsv(RowDataset):
    """Rows of a tab-separated file; nothing is quoted.

    Args:
        path: the file, also inside a zip or as `.gz` (`data/nlp/sst2/sst2.zip/train.tsv`).
        text: column of the text.
        pair: column of the second text; null for single texts.
        label: column of the label; null where there is none.
        group: column of what rows are ranked within; null for none.
        negatives: columns of texts that do not fit the first one, where the second does; an empty one is none.
        columns: names of the columns, for a file without a header line; null where the first line names them.
        separator: what stands between columns.
        max_skipped: share of the rows that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        text: str = "text_a",
        pair: str | None = None,
        label: str | None = "label",
        group: str | None = None,
        negatives: list[str] | None = None,
        columns: list[str] | None = None,
        separator: str = "\t",
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        if not separator:
            raise AttributeValueError("Tsv: separator is empty; it must be a character or more")
        lines = [(number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line]
        if columns is None:
            if not lines:
                raise DataError(f"Tsv {path}: the file is empty; expected a line with the names of the columns")
            columns = [name.strip() for name in lines.pop(0)[1].split(separator)]
        elif lines:
            _expect_no_header(f"{path}:{lines[0][0]}", lines[0][1].split(separator), columns)
        places = _places(f"Tsv {path}", columns, _roles(text, pair, label, group, negatives))

        def example(line: tuple[int, str]) -> Labelled:
            row = _cells(path, line[0], line[1].split(separator), columns)
            return _made({role: row[place] for role, place in places.items()})

        found = usable(f"Tsv {path}", lines, example, max_skipped, self.left_out)
        self._hold_rows(path, ((number, made) for (number, _), made in found), label)


@register("dataset")
class Csv(RowDataset):
    """Rows of a CSV file as spreadsheets and pandas write it: values may stand in quotes and go over several lines.

    A quote that is opened and not closed costs the row that it stands in, not those behind it.

    Args:
        path: the file, also inside a zip or as `.gz`.
        text: column of the text.
        pair: column of the second text; null for single texts.
        label: column of the label; null where there is none.
        group: column of what rows are ranked within; null for none.
        negatives: columns of texts that do not fit the first one, where the second does; an empty one is none.
        columns: names of the columns, for a file without a header line; null where the first line names them.
        delimiter: between columns, one character; null for the one that cuts most lines alike.
        max_skipped: share of the rows that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        text: str = "text",
        pair: str | None = None,
        label: str | None = "label",
        group: str | None = None,
        negatives: list[str] | None = None,
        columns: list[str] | None = None,
        delimiter: str | None = None,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        lines = [line for _, line in read_lines(path, encoding=encoding)]
        if delimiter is not None and len(delimiter) != 1:
            raise AttributeValueError(f"Csv: delimiter is {delimiter!r}; it must be one character")
        rows = list(
            rows_in(lines, Dialect(delimiter or delimiter_of(lines)), None if columns is None else len(columns))
        )
        if columns is None:
            if not rows or rows[0].wrong:
                raise DataError(f"Csv {path}: has no first line with the names of the columns")
            columns = [name.strip() for name in rows.pop(0).cells]
        elif rows:
            _expect_no_header(f"{path}:{rows[0].line}", rows[0].cells, columns)
        names = columns
        places = _places(f"Csv {path}", names, _roles(text, pair, label, group, negatives))

        def example(row: Row) -> Labelled:
            if row.wrong:
                raise DataError(f"{path}:{row.line}: {row.wrong}")
            cells = _cells(path, row.line, row.cells, names)
            return _made({role: cells[place] for role, place in places.items()})

        found = usable(f"Csv {path}", rows, example, max_skipped, self.left_out)
        self._hold_rows(path, ((row.line, made) for row, made in found), label)


@register("dataset")
class JsonLines(RowDataset):
    """A JSON object in each line, such as OCNLI's.

    Args:
        path: the file, also inside a zip or as `.gz`.
        text: key of the text.
        pair: key of the second text; null for single texts.
        label: key of the label, text or a number; null where there is none.
        group: key of what rows are ranked within; null for none.
        negatives: keys of texts, or lists of texts, that do not fit the first one, where the second does.
        drop: labels whose rows are left out, such as "-" where the annotators did not agree.
        max_skipped: share of the rows that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        text: str = "text",
        pair: str | None = None,
        label: str | None = "label",
        group: str | None = None,
        negatives: list[str] | None = None,
        drop: list[str] | None = None,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        keys = _roles(text, pair, label, group, negatives)
        named = {role: key for role, key in keys.items() if key is not None}
        lines = [
            (number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line.strip()
        ]
        made = usable(
            f"JsonLines {path}",
            lines,
            lambda row: _labelled(f"{path}:{row[0]}", row[1], named),
            max_skipped,
            self.left_out,
        )
        kept = ((number, example) for (number, _), example in made if example.label not in (drop or ()))
        self._hold_rows(path, kept, label)


@register("dataset")
class TextLines(RowDataset):
    """Plain text, an example in each line that is not empty, without labels; for a student's teacher to label.

    Args:
        path: the file, also inside a zip or as `.gz`.
        pair: each line holds two texts with a tab between them.
        max_skipped: share of the rows that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self, path: str, pair: bool = False, max_skipped: float = MAX_SKIPPED, encoding: str | None = None
    ) -> None:
        self.left_out = Tally()

        def example(row: tuple[int, str]) -> Labelled:
            texts = row[1].split("\t") if pair else [row[1]]
            if len(texts) != 1 + pair:
                raise DataError(f"{path}:{row[0]}: has {len(texts)} texts; expects two with a tab between them")
            return Labelled(texts[0], texts[1] if pair else None)

        lines = [
            (number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line.strip()
        ]
        found = usable(f"TextLines {path}", lines, example, max_skipped, self.left_out)
        self._hold_rows(path, ((number, made) for (number, _), made in found))


def _roles(
    text: str, pair: str | None, label: str | None, group: str | None, negatives: Sequence[str] | None
) -> dict[str, str | None]:
    """The column of each role, also of those that there is none for."""
    others = {f"{_NEGATIVE}{i}": name for i, name in enumerate(negatives or ())}
    return {"text": text, "pair": pair, "label": label, "group": group, **others}


def _made(cells: Mapping[str, str]) -> Labelled:
    """The example of the cells by role."""
    own = {role: cell for role, cell in cells.items() if not role.startswith(_NEGATIVE)}
    others = tuple(cell for role, cell in cells.items() if role.startswith(_NEGATIVE) and cell.strip())
    return Labelled(**own, negatives=others)


def _expect_no_header(where: str, cells: Sequence[str], columns: Sequence[str]) -> None:
    """DataError where `columns` are given and the file's first line has them too, which would be taken for a row."""
    if [cell.strip() for cell in cells] == list(columns):
        raise DataError(
            f"{where}: is the names of the columns, which `columns` is for a file without; leave `columns` out"
        )


def _places(where: str, columns: Sequence[str], roles: Mapping[str, str | None]) -> dict[str, int]:
    """The column of each role that has one; ConfigError where there is none of this name, or several."""
    found = {}
    for role, name in roles.items():
        if name is None:
            continue
        if name not in columns:
            hint = _suggest(name, columns)
            if len(columns) == 1 and len(roles) > 1:
                hint += "; if its lines hold more columns, say what stands between them"
            raise ConfigError(
                f"{where}: no column is called '{name}'{hint}; `columns` names those of a file without names"
            )
        if name in repeated(columns):
            raise ConfigError(f"{where}: {columns.count(name)} columns are called '{name}'; rename all but one")
        found[role] = columns.index(name)
    return found


def _cells(path: str, number: int, cells: list[str], columns: Sequence[str]) -> list[str]:
    if len(cells) != len(columns):
        raise DataError(
            f"{path}:{number}: has {len(cells)} columns but the file has {len(columns)} ({', '.join(columns)}); "
            "a text must hold no separator"
        )
    return cells


def _labelled(where: str, line: str, keys: dict[str, str]) -> Labelled:
    row = parse_json(where, line)
    if not isinstance(row, dict):
        raise DataError(f"{where}: is a {type(row).__name__}; each line must be a JSON object")
    missing = [key for key in keys.values() if key not in row]
    if missing:
        raise DataError(f"{where}: has no '{missing[0]}'{_suggest(missing[0], row)}")
    cells: dict[str, str] = {}
    for role, key in keys.items():
        value = row[key]
        if role.startswith(_NEGATIVE) and isinstance(value, list):
            cells |= {f"{role}.{i}": _plain(where, key, each, role) for i, each in enumerate(value)}
        else:
            cells[role] = _plain(where, key, value, role)
    return _made(cells)


def _plain(where: str, key: str, value: object, role: str) -> str:
    if isinstance(value, str):
        return value
    if role in ("label", "group") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{where}: '{key}' is {value!r:.40}; it must be text")


def _suggest(name: str, names: Iterable[str]) -> str:
    return did_you_mean(name, names) or f"; it has {listing(names)}"
