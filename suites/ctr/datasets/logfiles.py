"""ClickLog: a click log in files that fit in memory."""

from __future__ import annotations

from collections.abc import Sequence as Listed
from dataclasses import replace
from typing import Literal

from framework.errors import ConfigError
from suites.ctr.datasets.base import ClickDataset, EveryNth, Rows
from suites.ctr.datasets.delimited import gathered_values, read_delimited
from suites.ctr.datasets.encoding import Cell, RawRows
from suites.ctr.datasets.parquet import read_parquet
from suites.ctr.datasets.slots import read_slots
from suites.ctr.schema import Schema
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import find_data
from suites.engine.registry import register

Split = Literal["train", "val", "test", "all"]
_PARTS = {"train": tuple(range(8)), "val": (8,), "test": (9,)}  # of a single file, by row number modulo 10


@register("dataset", exclusive=(("rows", "split"),))
class ClickLog(ClickDataset):
    """Rows of log files, read as the schema's `format` says: delimited text, slot logs, Parquet; `.gz` and `.zst` too.

    Args:
        schema: what the columns are.
        root: folder or zip of the files; or one file, which is read in place of `files`.
        files: their names, read one after the other.
        rows: which rows are taken; null for all. Without `split`.
        split: where `root` is one file, the tenths of its rows that are taken: "train" 8, "val" 1 and "test" 1, by the
            row's number modulo 10; "all" takes all of them. Folders have a file for each part instead.
        max_skipped: share of the rows that may be wrong; they are left out and logged. 0: the first one is an error.
        ordered: times must not run backwards; a row whose time does is wrong.
    """

    def __init__(
        self,
        schema: Schema,
        root: str,
        files: list[str],
        rows: Rows | None = None,
        split: Split = "all",
        max_skipped: float = MAX_SKIPPED,
        ordered: bool = False,
    ) -> None:
        path = find_data(root)
        single = path.is_file() and path.suffix.lower() != ".zip"
        paths = [str(path)] if single else [f"{path}/{name}" for name in files]
        if single and split != "all":
            rows = EveryNth(10, _PARTS[split])
        self._hold(schema, read_log(paths, schema), rows, max_skipped, ordered)


def read_log(paths: list[str], schema: Schema) -> RawRows:
    """The rows of files that are read one after the other, as texts by column.

    Raises:
        DataError: a file cannot be read, or does not have the columns.
    """
    if schema.format.kind == "slot":
        return read_slots(paths, schema)
    if schema.format.kind == "parquet":
        return read_parquet(paths, schema)
    raw = read_delimited(paths, schema.format)
    names, missing = list(raw.columns), {"", *schema.format.missing}
    gathered: dict[str, Listed[Cell]] = {}
    for first, count in schema.spread().items():
        if first in names:
            beside = names[names.index(first) :][:count]
            if len(beside) < count:
                raise ConfigError(f"{raw.name}: '{first}' and the columns behind it are {len(beside)}, not {count}")
            rows = zip(*(raw.columns[name] for name in beside), strict=True)
            gathered[first] = [gathered_values(row, missing) for row in rows]
    return replace(raw, columns={**raw.columns, **gathered})
