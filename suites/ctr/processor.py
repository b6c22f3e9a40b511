"""What stands around a CTR model when it predicts: the schema, without a data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError, DataError
from suites.ctr.datasets.encoding import Cell, Encoder, Numbered, RawRows
from suites.ctr.datasets.logfiles import read_log
from suites.ctr.datasets.memory import as_text
from suites.ctr.schema import Schema, schema_of
from suites.ctr.schema.features import Sequence as Seen
from suites.ctr.serving import ServedRows
from suites.ctr.serving.published import model_key
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import ServedProcessor
from suites.engine.data.intake.naming import entries
from suites.engine.names import nearest
from suites.engine.neighbours.items import ItemIndex
from suites.engine.neighbours.wishes import KEY, Wish

Item = Mapping[str, Cell]  # a row: texts by column; lists of texts for multi-valued features


class Query(dict[str, Cell]):
    """A row of a user whose best items are asked for."""

    def __init__(self, row: Item, wish: Wish) -> None:
        super().__init__(row)
        self.wish = wish


class ClickProcessor(ServedProcessor):
    """Rows to batches, probabilities to what they say.

    Args:
        schema: with the centers and scales of the training set.
        catalogue: the items of the training set, of models that retrieve some.
    """

    batch_size: ClassVar[int] = 512
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".txt", ".parquet", ".gz", ".zst")

    def __init__(self, schema: Schema, catalogue: Sequence[str] = ()) -> None:
        self.schema, self.catalogue = schema, list(catalogue)
        self._encoder = Encoder(schema, labels=False, scaled=True)
        self._columns = schema.columns(labels=False)

    def metadata(self) -> dict[str, Any]:
        """The schema, and the catalogue; for programs without Python what a reader of rows does, and whose rows fit."""
        told = {"schema": self.schema.plain(), "catalogue": self.catalogue, "rows_key": model_key(self.schema)}
        reader = self._encoder.reader()
        return told if reader is None else told | {"reader": reader}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> ClickProcessor:
        """The processor that `metadata` describes; CheckpointError where the schema is missing."""
        if "schema" not in metadata:
            raise CheckpointError("ClickProcessor: the model's metadata lack 'schema'")
        return cls(schema_of(metadata["schema"]), metadata.get("catalogue", ()))

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """The rows of a file, or of the files in a folder.

        Raises ConfigError for a file without a column that the model needs.
        """
        path = Path(word)
        inside = path.is_dir()
        paths = [each for each in entries(path) if self.takes(each)] if inside else [path]
        return [pair for each in paths for pair in self._rows(each)]

    def _rows(self, path: Path) -> list[tuple[str, Callable[[], Any]]]:
        """Each row with what reads it, which raises a DataError for one that cannot be scored."""
        raw = read_log([str(path)], self.schema)
        wrong = self._encoder.faults(raw)
        found: list[tuple[str, Callable[[], Any]]] = []
        for i in range(len(raw)):
            if i in wrong:
                found.append((raw.where(i), partial(_refuse, f"{raw.where(i)}: {wrong[i]}")))
            else:
                found.append((raw.where(i), partial(dict, {name: column[i] for name, column in raw.columns.items()})))
        return found + [(text.partition(": ")[0], partial(_refuse, text)) for text in raw.wrong]

    def read(self, path: Path) -> Item:
        """The first row of a file."""
        rows = self._rows(path)
        if not rows:
            raise DataError(f"{path}: there are no rows")
        item: Item = rows[0][1]()
        return item

    def is_quick(self, value: Any, length: int) -> bool:
        """Always: a row is looked up and its numbers parsed, without expressions and decoders."""
        return True

    def item(self, given: Any) -> Item:
        """A row as a person has it in Python: values by column, such as a row of pandas; others may stand beside them.

        Raises DataError where it has no column that the model reads, or a name that is nearly one that it lacks.
        """
        if getattr(given, "ndim", 1) == 2 and hasattr(given, "to_dict"):
            raise DataError("a table has many rows; give them one by one: table.to_dict('records')")
        row = given.to_dict() if hasattr(given, "to_dict") else given
        if not isinstance(row, Mapping):
            raise DataError(f"a row is a dict of values by column, not {type(given).__name__}")
        if isinstance(row, Query):
            return row
        if isinstance(row.get(KEY), dict):
            return self.from_json(dict(row))
        lacking = [name for name in self._columns if name not in row]
        for name in row if lacking else ():
            if name not in self._columns and (meant := nearest(str(name), lacking)):
                raise DataError(f"there is no column '{name}'; did you mean '{meant}'?")
        if row and len(lacking) == len(self._columns):  # one of nothing is a row of missing values
            raise DataError(f"the row has no value that the model reads; it reads {', '.join(self._columns)}")
        _expect_values({name: row[name] for name in self._columns if name in row})
        return row if isinstance(row, dict) else dict(row)

    def from_json(self, value: Any) -> Item:
        """The row of a request: an object of values by column, or a text of one; one that is left out is missing.

        With an object under `find` the row is a user's, whose best items are wanted, see `retrieval.wishes`.
        """
        if isinstance(value, str):
            value = _parsed(value)
        if not isinstance(value, dict):
            raise DataError(f"a row is an object of values by column, not {type(value).__name__}")
        if isinstance(value.get(KEY), dict):  # no column's value is an object
            if not self.catalogue:
                raise DataError(f"{KEY}: this model scores rows and retrieves no items; leave it out")
            row = self.from_json({name: each for name, each in value.items() if name != KEY})
            return Query(row, Wish.from_json(value[KEY]))
        unknown = [name for name in value if name not in self._columns]
        if unknown:
            raise DataError(f"there is no column '{unknown[0]}'; the model reads {', '.join(self._columns)}")
        if value and not any(name in value for name in self._columns):
            raise DataError(f"the row has no value that the model reads; it reads {', '.join(self._columns)}")
        _expect_values(value)
        return {name: self._text(name, each) for name, each in value.items()}

    def _text(self, name: str, value: Any) -> Cell:
        """A value as the log has it; DataError, which names the column, for a number where the log has dates."""
        try:
            return as_text(value, self.schema.format.written.get(name))
        except DataError as error:
            raise DataError(f"'{name}' {error}") from None

    def example(self) -> Any:
        """A row without any value, which every model takes."""
        return dict.fromkeys(self._columns, "")

    def prepare(self, items: Sequence[Item]) -> Batch:
        """Rows as a batch, exactly as in evaluation; DataError names a value that does not fit."""
        columns = {name: [self._text(name, item.get(name)) for item in items] for name in self._columns}
        clicks, _ = self._encoder.encode(RawRows("rows", columns, Numbered("row")), max_skipped=0.0)
        return {**clicks.batch(), "item": list(items)}

    def feed(self, export: Path) -> ServedRows:
        """Rows in place of a batch's signs, from beside an export."""
        return ServedRows(export, self.schema)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """The probability of each label, of each row; of a `Query` the best items with their scores."""
        found: list[dict[str, Any]] = [
            dict(zip(self.schema.labels, map(float, row), strict=True)) for row in outputs["scores"]
        ]
        asked = {i: item for i, item in enumerate(batch["item"]) if isinstance(item, Query)}
        if asked:
            index = getattr(outputs, "beside", None)
            if index is None:
                raise DataError(f"{KEY}: no items lie beside this model; export it anew with `paddock export`")
            for i, answer in zip(asked, self._items(index, outputs["users"][list(asked)], asked.values()), strict=True):
                found[i] = answer
        return found

    def _items(self, index: ItemIndex, users: np.ndarray, asked: Iterable[Query]) -> list[dict[str, Any]]:
        wishes = [query.wish for query in asked]
        found = index.find(users, wishes, [self._history(query) for query in asked])
        answers = []
        for wish, best in zip(wishes, found, strict=True):
            unknown = index.unknown(wish)
            items = [{"item": name, "score": score} for name, score in best]
            answers.append({"items": items} | ({"unknown": unknown} if unknown else {}))
        return answers

    def _history(self, row: Item) -> list[str]:
        """The items that a user saw."""
        name = self.schema.fields().sequences[0][0]
        feature, cell = self.schema.features[name], row.get(self.schema.column_of(name), "")
        assert isinstance(feature, Seen)
        return cell.split(feature.separator) if isinstance(cell, str) else list(cell)

    def draw(self, item: Item, result: Any) -> str:
        """The row and its probabilities, as a line."""
        shown = ", ".join(f"{name}={item.get(name, '')}" for name in self._columns[:4])
        more = ", ..." if len(self._columns) > 4 else ""
        return f"{shown}{more}: " + ", ".join(f"{name} {value:.4f}" for name, value in result.items())


def _expect_values(row: Mapping[str, Any]) -> None:
    """Raise DataError for an object as a value, or in a list of values: its text would be an unknown category."""
    for name, value in row.items():
        several = value if isinstance(value, (list, tuple)) else () if isinstance(value, str) else (value,)
        if any(isinstance(each, (Mapping, set)) for each in several):
            raise DataError(f"'{name}' is an object; a value is a text, a number, true, false, null or a list of these")


def _refuse(why: str) -> Item:
    raise DataError(why)


def _parsed(text: str) -> Any:
    """The JSON value in a text, which is what the Open Inference Protocol has for items."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"the text {text[:40]!r} is no JSON; a row is an object of values by column") from None
