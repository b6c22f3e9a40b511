"""Parquet logs through pyarrow (extra `logs`): a unit a row group, its columns hashed natively over Arrow's buffers.

A value is the text that a CSV of the same table has, so both give the same signs: numbers are written in decimal. A
null is missing. A list gives the values of a multi-valued feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework import _core
from framework.errors import DataError, NotSupportedError
from framework.extras import install_command
from framework.limits import current, how_to_raise

if TYPE_CHECKING:
    from framework.data.logs.schema import LogSchema

_PART_ROWS = 8192  # that are made at once
_Texts = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise NotSupportedError(f"a Parquet log needs a package: {install_command('logs')}") from None
    return pyarrow


def open_parquet(path: Path) -> Any:
    """The file as a `pyarrow.parquet.ParquetFile`; raise DataError where it is none."""
    pyarrow = _pyarrow()
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataError(f"{path}: it is no whole Parquet file ({error})") from None


def groups(path: Path, schema: LogSchema) -> int:
    """How many row groups a file has; raise DataError where it is damaged or lacks a column that the schema uses."""
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        lacking = [schema.columns[i] for i in schema.used if schema.columns[i] not in names]
        if lacking:
            raise DataError(f"{path}: it has no column {', '.join(lacking[:8])}; it has {', '.join(names[:40])}")
        return file.num_row_groups


def parse(path: Path, schema: LogSchema, native: _core.LogSchema, group: int) -> _core.LogRows:
    """Rows of a row group; a bad row's line is its number in the group, from 0."""
    pyarrow = _pyarrow()
    used = {schema.columns[i] for i in schema.used}
    with open_parquet(path) as file:
        try:
            table = read_group(file, path, group, sorted(used))
            rows = table.num_rows
            empty: _Texts = (np.empty(0, np.uint8), np.zeros(rows + 1, np.int64), None, None)
            columns = [_texts(table, name) if name in used else empty for name in schema.columns]
        except (pyarrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: row group {group} cannot be read ({error})") from None
    return _core.parse_log_columns(native, columns, rows)


def read_group(file: Any, path: Path, group: int, columns: Sequence[str]) -> Any:
    """A row group as a table, read in parts: a few bytes of a file may stand for any number of equal texts.

    What the file says of its columns is not asked for: pyarrow ends the process where that is damaged.

    Raises DataError for one that grows to more than its limit, OSError or ArrowException for one that is damaged.
    """
    packed = path.stat().st_size
    most, made, parts = max(current().free_bytes, current().log_growth * packed), 0, []
    for part in file.iter_batches(_PART_ROWS, row_groups=[group], columns=columns, use_threads=False):
        parts.append(part)
        made += part.nbytes
        if made > most:
            raise DataError(
                f"{path}: has {packed} bytes, of which row group {group} grows to more than {most}. "
                f"{how_to_raise('log_growth')}"
            )
    return _pyarrow().Table.from_batches(parts, file.schema_arrow.empty_table().select(columns).schema)


def text_array(column: Any) -> tuple[Any, np.ndarray | None]:
    """A column of a table or batch as an array of texts, null where a value is missing, and where each row's list
    begins and ends in it, int64 [N + 1]; None for a column without lists."""
    pyarrow = _pyarrow()
    array = column
    if isinstance(column, pyarrow.ChunkedArray):
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pyarrow.ChunkedArray):  # no rows
        array = pyarrow.array([], array.type)
    kind, lists = array.type, None
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        array = array.cast(pyarrow.large_list(kind.value_type))
        sizes = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(array), 0).to_numpy()
        lists = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        array = array.flatten()
    return array.cast(pyarrow.large_string()), lists


def _texts(table: Any, name: str) -> _Texts:
    """A column as texts laid end to end: data, offsets, which of them are there, and where each row's list begins."""
    array, lists = text_array(table.column(name))
    count = len(array)
    valid, offsets, data = array.buffers()
    begins = (
        np.frombuffer(offsets, np.int64)[array.offset : array.offset + count + 1] if count else np.zeros(1, np.int64)
    )
    there = None
    if valid is not None and array.null_count:
        there = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    return np.frombuffer(data or b"", np.uint8), begins, there, lists
