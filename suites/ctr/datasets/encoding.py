"""From the texts of columns to the arrays of a schema; rows that do not fit are counted and named."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field

import numpy as np

from framework.errors import ConfigError, DataError
from suites.ctr.datasets.clicks import Clicks, Ragged
from suites.ctr.schema import Schema
from suites.ctr.schema.features import Crossed, Dense, Label, MultiValued, Sequence, Signed, Sparse
from suites.ctr.schema.signs import crossed, hash52, missing_sign, sign_of_number, signs_of
from suites.engine.data.intake.written import Moment, Written, is_plain, moment_of, plain_number
from suites.engine.data.skipping import MAX_SKIPPED, leave_out
from suites.engine.names import did_you_mean, listing
from suites.engine.reporting import Tally

_INT64 = 2**63
_MOST_FLOAT = float(np.finfo(np.float32).max)  # in which numbers are kept
_HASH, _DIGITS = (1 << 52) - 1, 20  # of a sign: the bits of its hash, and its digits as a number
_MOST_BUCKET = 9e15  # below which a float64 holds every whole number; the native reader has the same
_EXACT = 2**53  # up to which a number with a point or an exponent is a whole one

WRONG = "rows left out by reason"  # a kind of a tally
_VALUE = re.compile(r"""is ('(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)(?=[,;])""")  # in a reason: what one row has

Cell = str | Listed[str]  # a text, or the values of a multi-valued feature


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
    """Makes arrays of raw rows.

    Args:
        schema: what the columns are.
        labels: whether labels, group, time and weight are read; rows to predict on have none.
    """

    def __init__(self, schema: Schema, *, labels: bool = True) -> None:
        self._schema, self._labels = schema, labels
        self._missing = {"", *schema.format.missing}
        self._slots = schema.slots()

    def encode(self, raw: RawRows, max_skipped: float = MAX_SKIPPED) -> tuple[Clicks, np.ndarray]:
        """The rows that can be used, and their places in `raw`, int64 [N].

        Raises:
            ConfigError: a column is not there.
            DataError: more than `max_skipped` of the rows are wrong; or none is there.
        """
        clicks, wrong = self._encoded(raw)
        report(raw, wrong, max_skipped)
        rows = np.array([i for i in range(len(raw)) if i not in wrong], np.int64)
        return (clicks.take(rows) if wrong else clicks), rows

    def _encoded(self, raw: RawRows) -> tuple[Clicks, dict[int, str]]:
        """All rows, and why some of them do not fit."""
        self._check_columns(raw)
        wrong: dict[int, str] = {}
        if self._schema.format.kind == "slot":
            self._check_slots(raw, wrong)
        dense = self._dense(raw, wrong)
        labels = self._label_columns(raw, wrong) if self._labels else None
        time, weight, group = (
            (self._time(raw, wrong), self._weight(raw, wrong), self._group(raw)) if self._labels else (None,) * 3
        )
        return Clicks(self._sparse(raw, wrong), self._ragged(raw, wrong), dense, labels, weight, group, time), wrong

    def faults(self, raw: RawRows) -> dict[int, str]:
        """Why rows do not fit, by their place in `raw`; raises as `encode` does for columns."""
        return self._encoded(raw)[1]

    def _check_columns(self, raw: RawRows) -> None:
        for name in self._schema.columns(labels=self._labels):
            if name not in raw.columns:
                raise ConfigError(
                    f"{raw.name}: there is no column '{name}', which the schema names"
                    f"{did_you_mean(name, raw.columns) or f'; it has {listing(raw.columns)}'}"
                )

    def _check_slots(self, raw: RawRows, wrong: dict[int, str]) -> None:
        """Signs are whole numbers below 2^64, and only a multi-valued feature takes more of them than are named."""
        features = self._schema.features
        most: dict[str, int] = {}
        for name in (*features, *(self._schema.labels if self._labels else ())):
            feature = features.get(name)
            if not isinstance(feature, (Crossed, MultiValued, Sequence)):
                column = self._schema.column_of(name)
                most[column] = max(most.get(column, 0), 1 + getattr(feature, "place", 0))
        others = (self._schema.group, self._schema.time, self._schema.weight) if self._labels else ()
        for other in filter(None, others):
            most[other] = max(most.get(other, 0), 1)
        for column in {self._schema.column_of(name) for name in self._schema.ragged()}:
            most.pop(column, None)
        for column, count in most.items():
            for row, cell in enumerate(raw.columns[column]):
                if not isinstance(cell, str) and len(cell) > count:
                    wrong.setdefault(row, f"'{column}' has {len(cell)} values, and the schema takes {count}")
        signed = [n for n, f in features.items() if isinstance(f, Signed) and not isinstance(f, Crossed)]
        numbers = [n for n in signed if self._numbered(n)]
        for column in dict.fromkeys(map(self._schema.column_of, numbers)):
            for row, cell in enumerate(raw.columns[column]):
                for text in [cell] if isinstance(cell, str) else cell:
                    if text not in self._missing and _number(text) is None:
                        wrong.setdefault(row, f"'{column}' is {text!r:.40}, which is no whole number below 2^64")

    def _numbered(self, name: str) -> bool:
        """Whether a feature's values are numbers of a slot log, and not put into buckets."""
        bucket = getattr(self._schema.features[name], "bucket", None)
        return bucket is None and self._schema.is_number(self._schema.column_of(name))

    def _single(self, raw: RawRows, column: str) -> Listed[Cell]:
        """The values of a column that has one in each row."""
        cells = raw.columns[column]
        return [_at(cell, 0) for cell in cells] if self._schema.format.kind == "slot" else cells

    def _column(self, raw: RawRows, name: str) -> Listed[Cell]:
        cells = raw.columns[self._schema.column_of(name)]
        feature = self._schema.features.get(name)
        if self._schema.format.kind != "slot" or isinstance(feature, (MultiValued, Sequence)):
            return cells
        place = getattr(feature, "place", 0)
        return [_at(cell, place) for cell in cells]

    def _sparse(self, raw: RawRows, wrong: dict[int, str]) -> np.ndarray:
        found: dict[str, np.ndarray] = {}
        for name in self._schema.sparse():
            feature, slot = self._schema.features[name], self._slots[name]
            if isinstance(feature, Crossed):
                found[name] = crossed(np.stack([found[member] for member in feature.of], axis=1), slot)
            else:
                assert isinstance(feature, Sparse)
                texts = self._column(raw, name)
                hashed = self._buckets(texts, name, wrong) if feature.bucket else None
                found[name] = self._signs(texts, slot, hashed, numbers=self._numbered(name))
        return np.stack(list(found.values()), axis=1) if found else np.zeros((len(raw), 0), np.int64)

    def _buckets(self, texts: Listed[Cell], name: str, wrong: dict[int, str]) -> dict[Cell, str]:
        """The text that stands for a number's bucket, by the number's."""
        known: dict[Cell, str] = dict.fromkeys(self._missing, "")
        feature, form = self._schema.features[name], self._form(self._schema.column_of(name))
        kind = getattr(feature, "bucket", None)
        what = f"date ({form.date})" if form is not None and form.date else "number that has a bucket"
        for row, text in enumerate(texts):
            if text not in known:
                known[text] = (log_square(text, form) if kind == "log_square" else date_part(text, kind, form)) or ""
            if not known[text] and text not in self._missing:
                wrong.setdefault(row, f"'{name}' is {text!r:.40}, which is no {what}")
        return known

    def _form(self, column: str) -> Written | None:
        """How the numbers or dates of a column are written; None where they are plain."""
        return self._schema.format.written.get(column)

    def _signs(
        self, texts: Listed[Cell], slot: int, hashed: Mapping[Cell, str] | None = None, *, numbers: bool = False
    ) -> np.ndarray:
        """int64 [N]; each different text is hashed once, or what `hashed` has in its place, or its number."""
        places: dict[Cell, int] = {}
        codes = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int64, len(texts))
        if not places:
            return np.zeros(0, np.int64)
        if numbers:  # those that are none are told elsewhere
            each = np.array([_number(text) or 0 for text in places], np.uint64)
            signs = sign_of_number(each, slot)
        else:
            signs = signs_of([raw_bytes(text if hashed is None else hashed[text]) for text in places], slot)
        for text in self._missing & places.keys():
            signs[places[text]] = missing_sign(slot)
        return signs[codes]

    def _ragged(self, raw: RawRows, wrong: dict[int, str]) -> dict[str, Ragged]:
        found: dict[str, Ragged] = {}
        for name in self._schema.ragged():
            feature = self._schema.features[name]
            assert isinstance(feature, (MultiValued, Sequence))
            rows = [self._values(cell, feature) for cell in self._column(raw, name)]
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
            texts = [text for row in rows for text in row]
            found[name] = self._signs(texts, self._slots[name], numbers=self._numbered(name)), offsets
        for name, sequence in self._schema.of(Sequence).items():
            if sequence.along is not None:
                lengths = [np.diff(found[each][1]) for each in (name, sequence.along)]
                for row in np.flatnonzero(lengths[0] != lengths[1]):
                    wrong.setdefault(
                        int(row),
                        f"'{name}' has {lengths[0][row]} values but '{sequence.along}', which it "
                        f"goes along, has {lengths[1][row]}",
                    )
        return found

    def _values(self, cell: Cell, feature: MultiValued | Sequence) -> Listed[str]:
        if isinstance(cell, str):
            apart = feature.separator if self._schema.format.kind != "slot" else None
            parts: Listed[str] = cell.split(apart) if cell not in self._missing else ()
        else:
            parts = cell
        if feature.max_length is None or len(parts) <= feature.max_length:
            return parts
        last = isinstance(feature, Sequence) and feature.keep == "last"
        return parts[-feature.max_length :] if last else parts[: feature.max_length]

    def _dense(self, raw: RawRows, wrong: dict[int, str]) -> np.ndarray:
        names = list(self._schema.of(Dense))
        columns = [self._numbers(self._column(raw, name), name, self._schema.column_of(name), wrong) for name in names]
        return np.stack(columns, axis=1).astype(np.float32) if columns else np.zeros((len(raw), 0), np.float32)

    def _numbers(self, texts: Listed[Cell], name: str, column: str, wrong: dict[int, str]) -> np.ndarray:
        """float64 [N]; NaN where a number is missing, or wrong."""
        form = self._form(column)
        known: dict[Cell, float | None] = dict.fromkeys(self._missing, math.nan)
        out = np.empty(len(texts))
        for row, text in enumerate(texts):
            if text not in known:
                known[text] = finite_number(text, form)
            value = known[text]
            if value is None or abs(value) > _MOST_FLOAT:
                wrong.setdefault(row, f"'{name}' is {text!r:.40}, which is no {_wanted(form)}")
            out[row] = math.nan if value is None else value
        return out

    def _label_columns(self, raw: RawRows, wrong: dict[int, str]) -> np.ndarray:
        columns = [self._label(raw, name, label, wrong) for name, label in self._schema.labels.items()]
        return np.stack(columns, axis=1).astype(np.float32)

    def _label(self, raw: RawRows, name: str, label: Label, wrong: dict[int, str]) -> np.ndarray:
        texts = self._column(raw, name)
        if label.positive is not None:
            self._refuse_missing(texts, name, wrong)
            return np.fromiter((text in label.positive for text in texts), np.float64, len(texts))
        numbers = self._numbers(texts, name, self._schema.column_of(name), wrong)
        self._refuse_missing(texts, name, wrong)
        if label.at_least is not None:
            return (numbers >= label.at_least).astype(np.float64)
        for row in np.flatnonzero(~np.isin(numbers, (0.0, 1.0))).tolist():
            wrong.setdefault(
                row,
                f"the label '{name}' is {texts[row]!r:.40}; it must be 0 or 1, or the schema must say which values are "
                "positive",
            )
        return numbers

    def _refuse_missing(self, texts: Listed[Cell], name: str, wrong: dict[int, str]) -> None:
        for row, text in enumerate(texts):
            if text in self._missing:
                wrong.setdefault(row, f"the label '{name}' is missing")

    def _time(self, raw: RawRows, wrong: dict[int, str]) -> np.ndarray | None:
        if self._schema.time is None:
            return None
        out, form = np.zeros(len(raw), np.int64), self._form(self._schema.time)
        what = f"a date ({form.date})" if form is not None and form.date else "whole seconds"
        for row, text in enumerate(self._single(raw, self._schema.time)):
            value = whole_number(text, form)
            if value is None:
                wrong.setdefault(row, f"the time '{self._schema.time}' is {text!r:.40}; it must be {what}")
            out[row] = value or 0
        return out

    def _weight(self, raw: RawRows, wrong: dict[int, str]) -> np.ndarray | None:
        if self._schema.weight is None:
            return None
        column = self._schema.weight
        numbers = self._numbers(self._single(raw, column), column, column, wrong)
        for row in np.flatnonzero(~(numbers >= 0)):
            wrong.setdefault(int(row), f"the weight '{self._schema.weight}' is missing or below 0")
        return numbers.astype(np.float32)

    def _group(self, raw: RawRows) -> np.ndarray | None:
        if self._schema.group is None:
            return None
        column = self._schema.group
        texts = self._single(raw, column)
        known = list(dict.fromkeys(texts))
        if self._schema.is_number(column):
            each = sign_of_number(np.array([_number(text) or 0 for text in known], np.uint64), 1) & _HASH
        else:
            each = hash52([raw_bytes(text) for text in known])
        hashes = dict(zip(known, each.tolist(), strict=True))
        return np.fromiter((hashes[text] for text in texts), np.int64, len(texts))


def _number(text: Cell) -> int | None:
    """The whole number below 2^64 that a text is, in digits alone; None for any other."""
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text.lstrip("0")) <= _DIGITS):
        return None
    value = int(text)
    return value if value < 1 << 64 else None


def _at(cell: Cell, place: int) -> str:
    """Value number `place` of a cell, empty where it has fewer."""
    values = [cell] if isinstance(cell, str) else cell
    return values[place] if place < len(values) else ""


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


def log_square(text: Cell, form: Written | None = None) -> str | None:
    """The bucket of a number v as text: floor(ln(v)^2) above 2, floor(v) else; None for a text that has none."""
    value = finite_number(text, form)
    bucket = None if value is None else math.floor(math.log(value) ** 2 if value > 2 else value)
    return None if bucket is None or abs(bucket) >= _MOST_BUCKET else str(bucket)


def date_part(text: Cell, part: str | None, form: Written | None) -> str | None:
    """The "hour" or "weekday" of a date as text; None for a text that is none."""
    moment = _moment(text, form)
    return None if moment is None else str(moment.hour if part == "hour" else moment.weekday)


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


def _wanted(form: Written | None) -> str:
    if form is None:
        return "finite number"
    return f"date ({form.date})" if form.date else "number of the form that format.written gives"


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
