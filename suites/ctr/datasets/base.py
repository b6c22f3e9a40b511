"""What every click log offers, and which of its rows a part takes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framework.data import DataLoader
from framework.errors import AttributeValueError, ConfigError, DataError
from suites.ctr.datasets.clicks import Clicks
from suites.ctr.datasets.encoding import Cell, Encoder, RawRows, scales_of, transformed
from suites.ctr.schema import Schema
from suites.ctr.schema.features import Sparse
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.registry import register, register_role
from suites.engine.reporting import Tally

_log = logging.getLogger(__name__)
_EXAMPLES = 32  # rows that are kept as they stood, to show predictions on


class Rows(ABC):
    """Which rows of a log are taken."""

    @abstractmethod
    def places(self, count: int, time: np.ndarray | None, group: np.ndarray | None) -> np.ndarray:
        """Places of the rows taken, int64, rising. time, group: int64 [count], None where the schema names none."""


register_role("rows", Rows, doc="Which rows of a click log are taken.")


@register("rows")
@dataclass(frozen=True)
class EveryNth(Rows):
    """Rows by their number from 0: those whose remainder is one of these.

    Args:
        of: what the number is divided by.
        keep: remainders that are taken.
    """

    of: int
    keep: tuple[int, ...]

    def __post_init__(self) -> None:
        wrong = [k for k in self.keep if not 0 <= k < self.of]
        if self.of < 1 or not self.keep or wrong:
            raise AttributeValueError(
                f"EveryNth: of is {self.of} and keep {list(self.keep)}; remainders are 0 to of - 1"
            )

    def places(self, count: int, time: np.ndarray | None, group: np.ndarray | None) -> np.ndarray:
        """See `Rows`."""
        return np.flatnonzero(np.isin(np.arange(count) % self.of, self.keep))


@register("rows")
@dataclass(frozen=True)
class TimeSpan(Rows):
    """Rows by time: a share of all rows, the oldest first. Equal times go by their order in the log.

    Args:
        start: share of the rows before the first one taken.
        end: share of the rows up to the last one taken.
        each_group: shares of each group's rows, such as a user's, in place of shares of all rows.
    """

    start: float = 0.0
    end: float = 1.0
    each_group: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= 1:
            raise AttributeValueError(
                f"TimeSpan: start is {self.start} and end {self.end}; needed is 0 <= start < end <= 1"
            )

    def places(self, count: int, time: np.ndarray | None, group: np.ndarray | None) -> np.ndarray:
        """See `Rows`; raises ConfigError where there is no time."""
        if time is None:
            raise ConfigError("TimeSpan: the schema names no time column; give data.schema.time")
        if not self.each_group:
            order = np.argsort(time, kind="stable")
            return np.sort(order[round(self.start * count) : round(self.end * count)])
        if group is None:
            raise ConfigError("TimeSpan: each_group needs a group column; give data.schema.group")
        order = np.lexsort((time, group))  # stable
        starts = np.flatnonzero(np.concatenate([[True], np.diff(group[order]) != 0]))
        lengths = np.diff(np.append(starts, count))
        place = np.arange(count) - np.repeat(starts, lengths)
        of = np.repeat(lengths, lengths)
        inside = (place >= np.rint(self.start * of)) & (place < np.rint(self.end * of))
        return np.sort(order[inside])


SHARES = "log_share"  # array of a batch, see `ClickDataset.count_shares`


class ClickSource(ABC):
    """A click log, in memory or not.

    Attributes:
        schema: with what was learned from a training set, after `learn` or `follow`.
        examples: the first rows as texts by column.
        compared: of each field that a sequence is compared with, such as the item, its different values, sorted.
    """

    schema: Schema
    examples: list[Mapping[str, Cell]]

    @abstractmethod
    def learn(self) -> Schema:
        """Learn centers and scales from these rows, and return the schema with them."""

    @abstractmethod
    def follow(self, schema: Schema) -> None:
        """Take the schema that a training set returned from `learn`."""

    @abstractmethod
    def loader(self, batch_size: int, *, shuffle: bool = False, seed: int = 0, workers: int = 0) -> Any:
        """What gives batches to the engine: a `DataLoader`, or what has a `StreamLoader`'s methods.

        Args:
            batch_size: rows.
            shuffle: draw the order of each pass from the seed, and leave out its last batch where it is short.
            seed: of the order.
            workers: processes that make batches of a log in memory.
        """

    @abstractmethod
    def name_of(self, index: int) -> str:
        """Where example `index` is from, for messages."""


class ClickDataset(ClickSource):
    """A click log in memory.

    Args:
        schema: what the columns are.
        raw: the rows.
        rows: which of them are taken; None for all.
        max_skipped: share of the rows that may be wrong.
        ordered: times must not run backwards; a row whose time does is wrong.

    Attributes:
        schema: with what was learned from a training set, after `learn` or `follow`.
        clicks: the arrays; dense features as they stand in the log until then.
        examples: the first rows as texts by column.
        left_out: rows that are wrong and were skipped.
    """

    left_out: Tally
    _log_shares: np.ndarray | None = None

    @abstractmethod
    def __init__(self) -> None: ...

    def _hold(
        self,
        schema: Schema,
        raw: RawRows,
        rows: Rows | None = None,
        max_skipped: float = MAX_SKIPPED,
        ordered: bool = False,
    ) -> None:
        clicks, places = Encoder(schema).encode(raw, max_skipped)
        clicks, places = _in_order(raw, clicks, places, max_skipped, ordered)
        if rows is not None:
            # By the row's number in the log, so that parts stay apart where rows were left out.
            numbers, count = raw.numbers_at(places), len(raw) + len(raw.wrong)
            time, group = (_spread(each, numbers, count) for each in (clicks.time, clicks.group))
            mine = np.flatnonzero(np.isin(numbers, rows.places(count, time, group)))
            clicks, places = clicks.take(mine), places[mine]
        if not len(clicks):
            raise DataError(f"{raw.name}: no row is left; look at `rows`")
        self.schema, self.clicks, self.name = schema, clicks, raw.name
        self._raw_dense: np.ndarray | None = clicks.dense
        self._places, self._where, self.left_out = places, raw.where, raw.left_out
        self.examples = [
            {name: column[int(place)] for name, column in raw.columns.items()} for place in places[:_EXAMPLES]
        ]
        fields = schema.fields()
        names = {fields.fields[at] for _, at in fields.sequences if at >= 0} & schema.of(Sparse).keys()
        columns = {name: raw.columns[schema.column_of(name)] for name in names}
        self.compared = {name: sorted({str(column[i]) for i in places.tolist()}) for name, column in columns.items()}
        labels = clicks.labels
        assert labels is not None
        shares = ", ".join(f"{name} {share:.2%}" for name, share in zip(schema.labels, labels.mean(0), strict=True))
        _log.info("%s: %d rows, positive: %s", raw.name, len(clicks), shares)

    def learn(self) -> Schema:
        """Learn centers and scales from these rows, transform the dense features, and return the schema with them."""
        self.follow(self.schema.with_scales(scales_of(self.schema, self.clicks.dense)))
        return self.schema

    def follow(self, schema: Schema) -> None:
        """Transform the dense features as a schema says that a training set returned from `learn`."""
        if self._raw_dense is not None:
            self.clicks = replace(self.clicks, dense=transformed(schema, self._raw_dense))
            self._raw_dense = None
        self.schema = schema

    def loader(self, batch_size: int, *, shuffle: bool = False, seed: int = 0, workers: int = 0) -> DataLoader:
        """See `ClickSource`."""
        drop_last = shuffle and len(self) >= batch_size
        return DataLoader(self, batch_size, shuffle=shuffle, seed=seed, workers=workers, drop_last=drop_last)

    def __len__(self) -> int:
        return len(self.clicks)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return self.batch(np.array([index], np.int64))

    def batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The batch of the rows at these places, int64 [N]."""
        found = self.clicks.take(indices).batch()
        return found if self._log_shares is None else {**found, SHARES: self._log_shares[indices]}

    def count_shares(self, column: int) -> None:
        """Let batches have `log_share` float32 [N], ln of the share of all rows with the row's value of a field."""
        _, places, counts = np.unique(self.clicks.sparse[:, column], return_inverse=True, return_counts=True)
        self._log_shares = np.log(counts / len(self))[places.ravel()].astype(np.float32)

    def name_of(self, index: int) -> str:
        """File and line of a row, for messages."""
        return self._where(int(self._places[index]))


register_role("dataset", ClickSource, supplied=("schema",), doc="A click log.")


def _in_order(
    raw: RawRows, clicks: Clicks, places: np.ndarray, max_skipped: float, ordered: bool
) -> tuple[Clicks, np.ndarray]:
    """Say where times run backwards; leave those rows out, or raise DataError, where they must not."""
    if clicks.time is None or len(clicks) < 2:
        return clicks, places
    latest = np.maximum.accumulate(clicks.time)
    back = np.flatnonzero(clicks.time < latest)
    if not len(back):
        return clicks, places
    first = int(back[0])
    text = f"{raw.where(int(places[first]))}: the time is {clicks.time[first]}, but {latest[first]} came before it"
    if len(back) > max_skipped * len(clicks) and ordered:
        raise DataError(f"{text}; so it is with {len(back)} of {len(clicks)} rows; sort the log, or set ordered: false")
    what = "they were left out" if ordered else "the rows are taken as they stand"
    _log.warning("%s; times run backwards at %d of %d rows; %s", text, len(back), len(clicks), what)
    if not ordered:
        return clicks, places
    kept = np.flatnonzero(clicks.time >= latest)
    return clicks.take(kept), places[kept]


def _spread(values: np.ndarray | None, places: np.ndarray, count: int) -> np.ndarray | None:
    """Times or groups at their rows' numbers; a row that was left out has that of the one before it."""
    if values is None or len(values) == count:
        return values
    full = np.zeros(count, np.int64)
    full[places] = values
    known = np.zeros(count, np.int64)
    known[places] = places
    return full[np.maximum.accumulate(known)]
