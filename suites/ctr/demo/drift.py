"""DriftingLog: a click log that is drawn, with a power law over its values and tastes that change; for demos and tests.

A field's values are numbered in the order of their birth. `drift` new ones are born with each row; the value of rank r
among the living is the r-th youngest, and is drawn in proportion to (r + 1)^-exponent: it is seen often when it is new,
and fades. So a log has the more distinct values the longer it is, as real ones do. A row is clicked with probability
sigmoid(bias + sum of the fields' weights); the weight of a value is drawn from its number, and turns with time.

A block of rows depends on (seed, its number) alone. A line has a fixed width, so that blocks are written without a
loop over rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import write_text
from framework.errors import AttributeValueError

_BLOCK = 1 << 16  # rows drawn at once
_DIGITS = 10  # of a time in seconds
_HEX = 8  # digits of a value


@dataclass(frozen=True)
class DriftingLog:
    """The law of a log.

    Args:
        fields: F, how many values a row has.
        living: values of a field that may be drawn at any time.
        drift: values of a field that are born with each row.
        exponent: of the power law; 1 is Zipf's. Not 1 exactly.
        turn: rows in which the tastes turn by 90 degrees.
        spread: standard deviation of the sum of a row's weights.
        bias: of the log odds.
        rows_per_second: how fast the time of the rows goes.
        seed: of everything.

    Raises AttributeValueError for sizes that are not above 0.
    """

    fields: int = 8
    living: int = 200_000
    drift: float = 0.06
    exponent: float = 1.05
    turn: int = 10_000_000
    spread: float = 1.5
    bias: float = -1.5
    rows_per_second: float = 1000.0
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = (self.fields, self.living, self.turn, self.rows_per_second, self.exponent)
        if min(sizes) <= 0 or self.drift < 0 or self.exponent == 1:
            raise AttributeValueError(
                f"DriftingLog: fields, living, turn, rows_per_second and exponent are {sizes}, drift {self.drift}; "
                "needed are numbers above 0, an exponent other than 1 and a drift of 0 or more"
            )

    @property
    def columns(self) -> list[str]:
        """Names of the columns: label, time, and the fields."""
        return ["label", "time", *(f"f{i}" for i in range(self.fields))]

    def schema(self) -> dict[str, Any]:
        """The declaration of the log, as plain data."""
        return {
            "format": {"delimiter": "\t", "header": False, "columns": self.columns, "quote": None},
            "features": {name: {"type": "Sparse"} for name in self.columns[2:]},
            "labels": {"label": {}},
            "time": "time",
        }

    def block(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """65,536 rows: labels uint8 [N], true probabilities [N], times int64 [N], values uint64 [N, F]."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, number]))
        row = number * _BLOCK + np.arange(_BLOCK, dtype=np.int64)
        born = self.living + np.floor(row * self.drift).astype(np.int64)
        values = (born[:, None] - 1 - self._ranks(rng.random((_BLOCK, self.fields)))).astype(np.uint64)
        angle = (np.pi / 2 * row / self.turn)[:, None]
        weights = np.cos(angle) * self._weights(values, 0) + np.sin(angle) * self._weights(values, 1)
        score = self.bias + self.spread / np.sqrt(self.fields) * weights.sum(axis=1)
        chance = 1 / (1 + np.exp(-score))
        labels = (rng.random(_BLOCK) < chance).astype(np.uint8)
        return labels, chance, (row / self.rows_per_second).astype(np.int64), values

    def text(self, number: int, rows: int = _BLOCK) -> bytes:
        """The first `rows` lines of a block."""
        labels, _, times, values = (part[:rows] for part in self.block(number))
        width = 2 + _DIGITS + 1 + (_HEX + 1) * self.fields
        lines = np.full((rows, width), ord("\t"), np.uint8)
        lines[:, 0] = labels + ord("0")
        powers = 10 ** np.arange(_DIGITS - 1, -1, -1, dtype=np.int64)
        lines[:, 2 : 2 + _DIGITS] = times[:, None] // powers % 10 + ord("0")
        for i in range(self.fields):
            at = 2 + _DIGITS + 1 + (_HEX + 1) * i
            shifts = np.arange(4 * (_HEX - 1), -1, -4, dtype=np.uint64)
            digits = (values[:, i, None] >> shifts & np.uint64(15)).astype(np.uint8)
            lines[:, at : at + _HEX] = np.where(digits < 10, digits + ord("0"), digits + (ord("a") - 10))
        lines[:, -1] = ord("\n")
        return lines.tobytes()

    def texts(self, rows: int, begin: int = 0) -> Iterator[bytes]:
        """Lines of `rows` rows from block `begin` on, a block at a time."""
        for number in range(-(-rows // _BLOCK)):
            yield self.text(begin + number, min(_BLOCK, rows - number * _BLOCK))

    def write(self, path: Path, rows: int, begin: int = 0) -> None:
        """Write a file of `rows` rows from block `begin` on."""
        with open(path, "wb") as file:
            for text in self.texts(rows, begin):
                file.write(text)

    def write_passes(self, root: Path, rows: int, passes: int) -> None:
        """Write passes of `rows` rows each as folders `day/HHMM`, five minutes apart, each with its done-file."""
        blocks = -(-rows // _BLOCK)
        first = datetime.datetime(2026, 1, 1)
        for number in range(passes):
            folder = root / (first + datetime.timedelta(minutes=5 * number)).strftime("%Y%m%d/%H%M")
            folder.mkdir(parents=True, exist_ok=True)
            self.write(folder / "part-0.tsv", rows, number * blocks)
            write_text(folder / "_SUCCESS", "")

    def _ranks(self, u: np.ndarray) -> np.ndarray:
        """Ranks from 0 by the bounded power law, of uniform numbers: the inverse of its distribution function."""
        power = 1 - self.exponent
        top = (self.living + 1.0) ** power
        ranks = np.floor((1 + u * (top - 1)) ** (1 / power)).astype(np.int64) - 1
        return np.clip(ranks, 0, self.living - 1)

    def _weights(self, values: np.ndarray, which: int) -> np.ndarray:
        """Standard normal, as a function of field and value [N, F]: bits of a mixed counter, Box and Muller's way."""
        field = np.arange(self.fields, dtype=np.uint64)[None]
        bits = _mixed(values + (field << np.uint64(40)) + np.uint64((2 * self.seed + which) << 48))
        u = ((bits >> np.uint64(32)).astype(np.float64) + 0.5) / 2**32
        v = (bits & np.uint64(0xFFFFFFFF)).astype(np.float64) / 2**32
        normal: np.ndarray = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
        return normal


def _mixed(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finalizer (Steele, Lea and Flood, OOPSLA 2014) of uint64 numbers."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed
