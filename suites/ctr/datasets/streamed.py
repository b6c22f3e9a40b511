"""Click logs that do not fit in memory: read natively, block by block, while the model trains."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from framework.data.faults import FaultPolicy
from framework.data.logs import LogFolders, LogReader, Patience
from framework.data.logs.reader import expand
from framework.errors import ConfigError, DataError
from suites.ctr.datasets.base import ClickSource
from suites.ctr.datasets.contents import head
from suites.ctr.datasets.delimited import dialect_of, gathered_values, text_of
from suites.ctr.datasets.encoding import Cell, scales_of
from suites.ctr.datasets.parquet import columns_of, first_rows
from suites.ctr.datasets.slots import slot_columns, slot_row
from suites.ctr.schema import Schema
from suites.ctr.schema.compiled import compiled
from suites.ctr.schema.features import Dense
from suites.engine.data.intake.tables import refuse_comments, rows_in
from suites.engine.data.intake.texts import encoding_of, lines_of
from suites.engine.data.sources import find_data, is_there, places_tried
from suites.engine.registry import register

_log = logging.getLogger(__name__)
_EXAMPLES = 32  # rows that are kept as they stood, to show predictions on
_HEAD = 1 << 20  # bytes of a file in which these rows are looked for


class StreamedSource(ClickSource):
    """Base of logs that are never held.

    Args:
        schema: what the columns are.
        scale_rows: rows of which centers and scales are learned, where the schema has none.
        options: of the `LogReader`.
    """

    def __init__(self, schema: Schema, scale_rows: int, options: Mapping[str, Any]) -> None:
        self.schema, self._scale_rows, self._options = schema, scale_rows, dict(options)

    def _sample(self) -> list[Path]:
        """Files from which columns, scales and examples are taken."""
        raise NotImplementedError

    def learn(self) -> Schema:
        """Learn centers and scales from the first rows in a drawn order, and return the schema with them."""
        wanted = {name: f for name, f in self.schema.of(Dense).items() if f.learns}
        if wanted:
            fields = self._fields(scaled=False) | {"sparse": [], "ragged": []}
            rows, parts = 0, []
            with LogReader(self._sample(), fields, 4096, shuffle=True, faults=FaultPolicy(skipped=1.0)) as log:
                for batch in log:
                    parts.append(batch["dense"])
                    rows += len(batch["dense"])
                    if rows >= self._scale_rows:
                        break
            if not rows:
                raise DataError(f"{self._sample()[0]}: it gives no row; look at the schema")
            self.schema = self.schema.with_scales(scales_of(self.schema, np.concatenate(parts)))
            _log.info("centers and scales of %s come from %d rows", ", ".join(wanted), rows)
        return self.schema

    def follow(self, schema: Schema) -> None:
        """Take the schema that a training set returned from `learn`."""
        self.schema = schema

    @property
    def examples(self) -> list[Mapping[str, Cell]]:  # type: ignore[override]  # read when somebody looks
        """The first rows of the first file as texts by column."""
        if self.schema.format.kind == "parquet":
            return list(first_rows(self._sample()[0], _EXAMPLES, self.schema.columns()))
        if self.schema.format.kind == "slot":
            text = head(self._sample()[0], _HEAD).decode("utf-8", "surrogateescape")
            found = (slot_row(line, self.schema.format, slot_columns(self.schema)) for line in text.split("\n")[:-1])
            return list(islice((row for row in found if isinstance(row, dict)), _EXAMPLES))
        rows = self._rows(_EXAMPLES + 1)
        names = self._columns()
        if self.schema.format.header and rows and rows[0] == names:
            rows = rows[1:]
        return [self._example(names, row) for row in rows[:_EXAMPLES] if len(row) == len(names)]

    def _example(self, names: list[str], row: list[str]) -> Mapping[str, Cell]:
        missing = {"", *self.schema.format.missing}
        spread = self.schema.spread().items()
        lists = {first: gathered_values(row[names.index(first) :][:count], missing) for first, count in spread}
        return {**dict(zip(names, row, strict=True)), **lists}

    def name_of(self, index: int) -> str:
        """File and number of an example."""
        return f"{self._sample()[0]}: row {index + 1}"

    def _fields(self, scaled: bool = True) -> dict[str, Any]:
        """What the native reader is told."""
        if self.schema.format.kind == "slot":
            return compiled(self.schema, slot_columns(self.schema), scaled=scaled)
        if self.schema.format.kind == "parquet":
            return compiled(self.schema, *columns_of(self._sample()[0]), scaled=scaled)
        return compiled(self.schema, self._columns(), scaled=scaled)

    def _columns(self) -> list[str]:
        """All columns of a delimited log, in the order of its first file."""
        form = self.schema.format
        if form.columns:
            return list(form.columns)
        rows = self._rows(1)
        if not rows:
            raise DataError(f"{self._sample()[0]}: the file is empty; expected a line with the names of the columns")
        return rows[0]

    def _rows(self, count: int) -> list[list[str]]:
        path, form = self._sample()[0], self.schema.format
        data = head(path, _HEAD)
        told = encoding_of(data, form.encoding, str(path)).name
        if told not in ("utf-8", "ascii"):
            raise DataError(
                f"{path}: is {told}, but a streamed log must be UTF-8; convert it: iconv -f {told} -t utf-8"
            )
        dialect = replace(dialect_of(form), newlines=form.newlines)
        lines = lines_of(text_of(data, str(path), form))
        if form.header:
            refuse_comments(lines, dialect, str(path))
        rows = rows_in(lines, dialect, len(form.columns) if form.columns else None)
        return [row.cells for row in islice((row for row in rows if not row.wrong), count)]


@register("dataset")
class LogStream(StreamedSource):
    """Files of a click log that need not fit in memory, plain, compressed (`.gz`, `.zst`) or in a zip.

    What it puts up with is `runtime.data.max_skipped`. The run needs `runtime.steps`: nobody counted the rows.

    Args:
        schema: what the columns are.
        root: folder or zip of the files.
        files: their names, or patterns such as "day_*.tsv.gz".
        shuffle_rows: rows among which a drawn order mixes; see docs/howto/ctr_data.md.
        block_bytes: of text that is parsed at once.
        threads: that parse; null for as many as compute.
        bad_files: how many files may be unreadable.
        scale_rows: rows of which centers and scales are learned, where the schema has none.
    """

    def __init__(
        self,
        schema: Schema,
        root: str,
        files: list[str],
        shuffle_rows: int = 1 << 16,
        block_bytes: int = 1 << 20,
        threads: int | None = None,
        bad_files: int = 0,
        scale_rows: int = 1_000_000,
    ) -> None:
        options = {"shuffle_rows": shuffle_rows, "block_bytes": block_bytes, "threads": threads, "bad_files": bad_files}
        super().__init__(schema, scale_rows, options)
        if not files:
            raise ConfigError("LogStream: files is empty; name at least one, or a pattern")
        folder = find_data(root)
        if not is_there(folder):
            raise DataError(f"LogStream: {root}: no such folder or zip; {places_tried(root)}")
        self._paths = expand([f"{folder}/{name}" for name in files])

    def _sample(self) -> list[Path]:
        return self._paths

    def loader(self, batch_size: int, *, shuffle: bool = False, seed: int = 0, workers: int = 0) -> LogReader:
        """A `LogReader` of the files."""
        fields = self._fields()
        options = {**self._options, "shuffle": shuffle, "seed": seed, "drop_last": shuffle}
        return LogReader(self._paths, fields, batch_size, **options)


@register("dataset")
class LogPasses(StreamedSource):
    """A click log that keeps coming: folders `day/HHMM`, each read once, when its done-file is there.

    Training waits for the next one, and ends with an error where none comes in time. What it puts up with is
    `runtime.data.max_skipped`. The run needs `runtime.steps`; it ends before where the pass `end` is over.

    Args:
        schema: what the columns are.
        root: folder of the days.
        files: pattern of the files of a pass.
        done: the done-file, as seen from the pass's folder; `{name}` is that folder's name.
        begin: name of the first pass, such as "20261122/0900"; null for the first one there.
        end: name of the last pass, behind which the run ends; null for none.
        every: minutes from one pass to the next; null if that varies.
        wait_seconds: how long the next pass is waited for.
        shuffle_rows: rows of a pass among which a drawn order mixes.
        threads: that parse; null for as many as compute.
        scale_rows: rows of which centers and scales are learned, where the schema has none.
    """

    def __init__(
        self,
        schema: Schema,
        root: str,
        files: str = "*",
        done: str = "_SUCCESS",
        begin: str | None = None,
        every: int | None = None,
        wait_seconds: float = 3600.0,
        shuffle_rows: int = 1 << 16,
        threads: int | None = None,
        scale_rows: int = 1_000_000,
        end: str | None = None,
    ) -> None:
        options = {"shuffle_rows": shuffle_rows, "threads": threads}
        super().__init__(schema, scale_rows, options)
        self._root, self._files = str(find_data(root)), files
        self._passes: dict[str, Any] = {"done": done, "begin": begin, "end": end, "every": every}
        self._patience = Patience(wait_seconds, then="error")

    def _sample(self) -> list[Path]:
        fields = {"columns": ["any"]}  # nothing is read
        folders = LogFolders(self._root, fields, 1, files=self._files, patience=self._patience, **self._passes)
        return folders.first_files()

    def loader(self, batch_size: int, *, shuffle: bool = False, seed: int = 0, workers: int = 0) -> LogFolders:
        """A `LogFolders` of the root."""
        fields = self._fields()
        options = {**self._options, **self._passes, "shuffle": shuffle, "seed": seed, "drop_last": shuffle}
        return LogFolders(self._root, fields, batch_size, files=self._files, patience=self._patience, **options)
