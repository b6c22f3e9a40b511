"""Click logs that are in memory already: NumPy arrays, lists, or a table of pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Listed
from types import MappingProxyType
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.ctr.datasets.base import ClickDataset, Rows
from suites.ctr.datasets.encoding import Cell, Numbered, RawRows
from suites.ctr.schema import Schema
from suites.engine.data.intake.written import Written
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.registry import register


@register("dataset")
class Columns(ClickDataset):
    """Columns that code gives.

    Values are hashed as the text that a CSV file would have: 3 as "3", true as "true", None and NaN as missing, a float
    without a fraction as "3". So a model that was trained on a file takes arrays too.

    Args:
        schema: what the columns are.
        columns: arrays or lists by name, all of one length; or a pyarrow table. Multi-valued features and sequences may
            be lists of values.
        rows: which rows are taken; None for all.
        max_skipped: share of the rows that may be wrong.
        ordered: times must not run backwards.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Any,
        rows: Rows | None = None,
        max_skipped: float = MAX_SKIPPED,
        ordered: bool = False,
    ) -> None:
        self._hold(schema, raw_of(columns, written=schema.format.written), rows, max_skipped, ordered)


def raw_of(columns: Any, name: str = "columns", written: Mapping[str, Written] = MappingProxyType({})) -> RawRows:
    """The texts of columns; raises DataError where they differ in length, or a number stands where dates do.

    Args:
        columns: see `Columns`.
        name: of them, for messages.
        written: by column, how a file has its numbers; numbers become such texts.
    """
    if hasattr(columns, "column_names"):  # a table of pyarrow
        columns = {each: columns.column(each).to_pylist() for each in columns.column_names}
    texts = {
        str(key): [as_text(value, written.get(str(key))) for value in _listed(values)]
        for key, values in columns.items()
    }
    lengths: Mapping[str, int] = {key: len(values) for key, values in texts.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{name}: the columns differ in length: {dict(lengths)}")
    return RawRows(name, texts, Numbered(f"{name}, row"))


def as_text(value: Any, form: Written | None = None) -> Cell:
    """A value as a CSV file has it; a list stays one, of texts.

    Args:
        value: a text, a number, True or False, None, or a list of these.
        form: how the file has numbers; None for plain ones.

    Raises:
        DataError: it is a number, and the file has dates there.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [str(as_text(each)) for each in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number != number:
            return ""
        short = int(number) if number.is_integer() else value
        return str(short) if form is None else form.text_of(float(short) if not number.is_integer() else int(short))
    if form is not None and isinstance(value, (int, np.integer)):
        return form.text_of(int(value))
    return str(value)


def _listed(values: Any) -> Listed[Any]:
    return (
        values.tolist()
        if isinstance(values, np.ndarray) and values.dtype != np.float32 and values.dtype != object
        else list(values)
    )
