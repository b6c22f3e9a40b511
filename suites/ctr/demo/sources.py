"""Where the demo's log comes from: drawn by a law, or a real piece again and again with values that change."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from framework.errors import DataError
from suites.ctr.demo.drift import DriftingLog
from suites.engine.config.building import read_config
from suites.engine.data.sources import open_zip

_BLOCK = 1 << 16  # rows that `DriftingLog` draws at once
_CONFIGS = {"criteo": "ctr/deepfm_criteo", "avazu": "ctr/deepfm_avazu"}
KINDS = ("drawn", *_CONFIGS)


@dataclass(frozen=True)
class Span:
    """What happened in one span of time.

    Attributes:
        text: rows to train on.
        asked: rows that are only asked about, as a server takes them.
        labels: of these.
    """

    text: bytes
    asked: list[dict[str, str]]
    labels: list[int]


class Source(Protocol):
    """A log without end."""

    @property
    def schema(self) -> dict[str, Any]:
        """The declaration of the log, as plain data."""

    def part(self, number: int, rows: int, asked: int) -> Span:
        """Span `number` of the log; it depends on the arguments alone."""


class Drawn:
    """A `DriftingLog`; a span is the beginning of a block, so that the drift does not depend on the rows of a span."""

    def __init__(self) -> None:
        self._log = DriftingLog(fields=8, living=10_000, drift=1e-4, turn=8_000_000, spread=2.0)

    @property
    def schema(self) -> dict[str, Any]:
        """See `Source`."""
        return self._log.schema()

    def part(self, number: int, rows: int, asked: int) -> Span:
        """See `Source`; DataError for more rows than a block has."""
        if rows + asked > _BLOCK:
            raise DataError(f"the drawn log has {_BLOCK} rows a span; {rows} and {asked} are asked for")
        lines = self._log.text(number, rows + asked).splitlines(keepends=True)
        cells = [dict(zip(self._log.columns, line.decode().split(), strict=True)) for line in lines[rows:]]
        labels = [int(row.pop("label")) for row in cells]
        return Span(b"".join(lines[:rows]), [{k: v for k, v in row.items() if k != "time"} for row in cells], labels)


class Replayed:
    """Rows of a real piece in a drawn order, without end. Values give way to new ones, each at a time of its own.

    Rows that are asked about come from the piece's `dev` part, which is never trained on.

    Args:
        kind: "criteo" or "avazu".
        data: folder with `criteo_small` and `avazu_small`.
        drift: share of the values that give way in a span.
    """

    def __init__(self, kind: str, data: Path, drift: float = 0.005) -> None:
        self._path = data / f"{kind}_small" / f"{kind}_small.zip"
        section = read_config(Path(_CONFIGS[kind])).as_dict()["data"]
        self.schema: dict[str, Any] = section["schema"]
        self._files = [section[name]["dataset"]["files"][0] for name in ("train", "eval")]
        self._drift = drift
        features = self.schema["features"]
        self._read = {name for name in self.schema["format"]["columns"] if name in features}
        self._sparse = {name for name in self._read if features[name]["type"] == "Sparse"}
        (self._label,) = self.schema["labels"]

    @cached_property
    def _rows(self) -> list[list[list[str]]]:
        """Cells of the rows to train on and of those to ask about."""
        delimiter, columns = self.schema["format"].get("delimiter", ","), self.schema["format"]["columns"]
        try:
            archive = open_zip(Path(self._path))
            texts = [archive.read(name).decode() for name in self._files]
        except (DataError, UnicodeDecodeError) as error:
            raise DataError(f"{error}; use --log drawn, which needs no data") from None
        rows = [[line.split(delimiter) for line in text.splitlines()] for text in texts]
        return [[row for row in part if len(row) == len(columns) and row != columns] for part in rows]

    def part(self, number: int, rows: int, asked: int) -> Span:
        """See `Source`; DataError where the piece cannot be read."""
        rng = np.random.default_rng([number, rows])
        known: dict[tuple[str, str], str] = {}
        train, dev = (
            [part[i] for i in rng.integers(0, len(part), n)] for part, n in zip(self._rows, (rows, asked), strict=True)
        )
        columns, form = self.schema["format"]["columns"], self.schema["format"]
        changed = [[self._now(c, v, number, known) for c, v in zip(columns, row, strict=True)] for row in train]
        text = "".join(form.get("delimiter", ",").join(row) + "\n" for row in changed)
        cells = [dict(zip(columns, row, strict=True)) for row in dev]
        items = [{c: self._now(c, v, number, known) for c, v in row.items() if c in self._read} for row in cells]
        return Span(text.encode(), items, [int(row[self._label]) for row in cells])

    def _now(self, column: str, value: str, number: int, known: dict[tuple[str, str], str]) -> str:
        """What stands for a value in a span."""
        if not value or column not in self._sparse:
            return value
        if (column, value) not in known:
            begin = zlib.crc32(f"{column}={value}".encode()) / 2**32
            turn = int(number * self._drift + begin)
            known[column, value] = f"{value}~{turn}" if turn else value
        return known[column, value]


def source_of(settings: Mapping[str, Any]) -> Source:
    """The source of a plan's `log` and `data`."""
    return Drawn() if settings["log"] == "drawn" else Replayed(settings["log"], Path(settings["data"]))
