"""From the texts of columns to the arrays of a schema; rows that do not fit are counted and named."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Set
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framework.data.logs.schema import Cell, LogSchema
from framework.errors import ConfigError, DataError
from suites.ctr.datasets.clicks import Clicks
from suites.ctr.schema import Schema
from suites.ctr.schema.compiled import compiled
from suites.ctr.schema.features import Dense
from suites.engine.data.intake.written import Moment, Written, is_plain, moment_of, plain_number
from suites.engine.data.skipping import MAX_SKIPPED, leave_out
from suites.engine.names import did_you_mean, listing
from suites.engine.reporting import Tally

_INT64 = 2**63
_DIGITS = 20  # of a whole number
_EXACT = 2**53  # up to which a number with a point or an exponent is a whole one

WRONG = "rows left out by reason"  # a kind of a tally
_VALUE = re.compile(r"""is ('(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)(?=[,;])""")  # in a reason: what one row has


@dataclass(frozen=True)
class Numbered:
    """What names a row: "columns, row 17"; may be sent to another process.

    Attributes:
        name: what stands before the number.
    """

    name: str

    def __call__(self, row: int) -> str:
        """The name of a row."""
        return f"{self.name} {row}"


@dataclass
class RawRows:
    """Columns as they were read.

    Attributes:
        name: of the file or table, for messages.
        columns: texts by column, all of one length; a multi-valued column may hold lists of texts.
        where: what names row i in a message, such as "log.csv:17".
        left_out: rows that were left out when arrays were made.
        wrong: why rows that are in no column cannot be used, such as "log.csv:4: has 3 columns ...".
        numbers: rising int64 [N], each row's number in the log, in which rows of `wrong` have theirs; None where these
            stand behind all others.
    """

    name: str
    columns: Mapping[str, Listed[Cell]]
    where: Callable[[int], str]
    wrong: list[str] = field(default_factory=list)
    left_out: Tally = field(default_factory=Tally)
    numbers: np.ndarray | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def numbers_at(self, places: np.ndarray) -> np.ndarray:
        """The numbers in the log of the rows at these places, int64."""
        return places if self.numbers is None else self.numbers[places]


class Encoder:
    """Makes arrays of raw rows, by the native code that reads logs too.

    Args:
        schema: what the columns are.
        labels: whether labels, group, time and weight are read; rows to predict on have none.
        scaled: whether dense features are transformed; else they stay numbers, NaN for missing ones.
    """

    def __init__(self, schema: Schema, *, labels: bool = True, scaled: bool = False) -> None:
        self._schema, self._labels, self._scaled = schema, labels, scaled
        self._columns = schema.columns(labels=labels)
        head = schema.format.head if schema.format.kind == "slot" else ()
        self._given = list(dict.fromkeys((*head, *self._columns)))  # to the native code; a slot log's head stands first
        self._head = set(head)
        apart = schema.format.kind != "slot"  # values of a slot log in one text are parted by blanks
        self._apart = {
            schema.column_of(name): getattr(schema.features[name], "separator", None) if apart else None
            for name in schema.ragged()
        }
        self._compiled: dict[frozenset[str], LogSchema] = {}

    def encode(self, raw: RawRows, max_skipped: float = MAX_SKIPPED) -> tuple[Clicks, np.ndarray]:
        """The rows that can be used, and their places in `raw`, int64 [N].

        Raises:
            ConfigError: a column is not there.
            DataError: more than `max_skipped` of the rows are wrong; or none is there.
        """
        batch, wrong = self._encoded(raw)
        report(raw, wrong, max_skipped)
        places = np.arange(len(raw))
        ragged = {name: (batch[name], batch[f"{name}.offsets"]) for name in self._schema.ragged()}
        rest = {name: batch.get(name) for name in ("labels", "weight", "group", "time")}
        clicks = Clicks(batch["sparse"], ragged, batch["dense"], **rest)
        return clicks, np.delete(places, sorted(wrong)) if wrong else places

    def faults(self, raw: RawRows) -> dict[int, str]:
        """Why rows do not fit, by their place in `raw`; raises as `encode` does for columns."""
        return self._encoded(raw)[1]

    def reader(self) -> dict[str, Any] | None:
        """What the native code is told of rows whose cells are single texts, or of lines of a slot log.

        None where it is not done so: of features whose values lie in columns side by side, and of numbers whose scale
        is not known yet.
        """
        learns = self._scaled and any(feature.learns for feature in self._schema.of(Dense).values())
        if self._schema.spread() or learns:
            return None
        return self._native(self._lists_of_slots()).native_fields()

    def _lists_of_slots(self) -> frozenset[str]:
        """Of a slot log the columns whose values are lists: all behind its head."""
        return frozenset(self._given) - self._head if self._schema.format.kind == "slot" else frozenset()

    def _encoded(self, raw: RawRows) -> tuple[dict[str, Any], dict[int, str]]:
        """The batch of the rows that fit, and why the others do not."""
        self._check_columns(raw)
        cells = {name: raw.columns.get(name) or [""] * len(raw) for name in self._given}
        if self._schema.format.kind == "slot":
            lists: Set[str] = self._lists_of_slots()
        else:
            lists = {name for name, each in cells.items() if not all(issubclass(k, str) for k in set(map(type, each)))}
            lists |= self._schema.spread().keys() & cells.keys()
        cells |= {name: [self._list(cell, name) for cell in cells[name]] for name in lists}
        return self._native(lists).encode(list(cells.values()))

    def _native(self, lists: Set[str]) -> LogSchema:
        """What the native code is told, for columns some of which hold lists."""
        key = frozenset(lists)
        if key not in self._compiled:
            fields = compiled(self._schema, self._given, lists, labels=self._labels, scaled=self._scaled)
            self._compiled[key] = LogSchema(fields)
        return self._compiled[key]

    def _list(self, cell: Cell, column: str) -> Listed[str]:
        """A cell of a column of lists."""
        if not isinstance(cell, str):
            return cell
        if column not in self._apart:
            return [cell]
        return cell.split(self._apart[column]) if cell and cell not in self._schema.format.missing else []

    def _check_columns(self, raw: RawRows) -> None:
        for name in self._columns:
            if name not in raw.columns:
                raise ConfigError(
                    f"{raw.name}: there is no column '{name}', which the schema names"
                    f"{did_you_mean(name, raw.columns) or f'; it has {listing(raw.columns)}'}"
                )


def report(raw: RawRows, wrong: Mapping[int, str], max_skipped: float) -> None:
    """Log rows that are wrong; raise DataError where there are too many of them, or no others."""
    reasons = [*raw.wrong, *(f"{raw.where(row)}: {reason}" for row, reason in sorted(wrong.items()))]
    total = len(raw) + len(raw.wrong)
    if not total:
        raise DataError(f"{raw.name}: there are no rows")
    leave_out(raw.name, reasons, total, max_skipped)
    kinds: Counter[str] = Counter()
    for reason in reasons:
        where, _, why = reason.partition(": ")
        raw.left_out.skip(where, why)
        kinds[_VALUE.sub("is ...", why)] += 1
    if kinds:
        raw.left_out.add(WRONG, kinds, total, whole=True)


def raw_bytes(text: Cell) -> bytes:
    """The bytes of a text as they stood in the file, also where they are no UTF-8."""
    assert isinstance(text, str)
    return text.encode("utf-8", "surrogateescape")


def finite_number(text: Cell, form: Written | None = None) -> float | None:
    """The number that a text is, of a date the days since 1970; None for one that is none, or not finite.

    Args:
        text: a cell.
        form: how numbers or dates are written there; None for plain numbers, as the native reader takes them.
    """
    moment = _moment(text, form)
    if moment is not None:
        return moment.days
    plain = _plain(text, form)
    value = math.inf if plain is None else float(plain)
    return value if math.isfinite(value) else None


def whole_number(text: Cell, form: Written | None = None) -> int | None:
    """The int64 that a text is, of a date the seconds since 1970; None for others. "12.0" is one too."""
    moment = _moment(text, form)
    if moment is not None:
        return moment.utc
    plain = _plain(text, form)
    if plain is None:
        return None
    if (digits := plain.lstrip("+-")).isdigit():
        value = int(plain) if len(digits.lstrip("0")) <= _DIGITS else _INT64
        return value if -_INT64 <= value < _INT64 else None
    number = float(plain)
    return int(number) if abs(number) <= _EXACT and number.is_integer() else None


def _plain(text: Cell, form: Written | None) -> str | None:
    """The number in plain digits, at most as many as Python converts; None for other texts, and for dates."""
    if not isinstance(text, str) or (form is not None and form.date):
        return None
    if form is not None:
        return plain_number(text, form)
    return text if is_plain(text) else None


def _moment(text: Cell, form: Written | None) -> Moment | None:
    return moment_of(text, form.date) if form is not None and form.date and isinstance(text, str) else None


def scales_of(schema: Schema, dense: np.ndarray) -> dict[str, tuple[float, float]]:
    """(center, scale) of the dense features that learn them, from the rows of a training set [N, D], NaN for missing.

    A column without two different values has scale 1.
    """
    found: dict[str, tuple[float, float]] = {}
    for column, (name, feature) in enumerate(schema.of(Dense).items()):
        if feature.learns:
            values = dense[:, column].astype(np.float64)
            values = values[~np.isnan(values)]
            low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
            standard = feature.transform == "standard"
            center = values.mean() if standard and len(values) else low
            scale = values.std() if standard and high > low else high - low
            found[name] = float(center), float(scale) if scale > 0 else 1.0
    return found


def transformed(schema: Schema, dense: np.ndarray) -> np.ndarray:
    """Dense features as models take them, float32 [N, D]: the schema's transforms, then 0 for what is missing."""
    out = dense.astype(np.float64)
    for column, (name, feature) in enumerate(schema.of(Dense).items()):
        x = out[:, column]
        if feature.transform == "log":
            out[:, column] = np.sign(x) * np.log1p(np.abs(x))
        elif feature.transform != "none":
            if feature.center is None or feature.scale is None:
                raise ConfigError(f"schema: '{name}' has no center and scale yet; they come from a training set")
            out[:, column] = (x - feature.center) / feature.scale
    return np.nan_to_num(out, nan=0.0).astype(np.float32)
