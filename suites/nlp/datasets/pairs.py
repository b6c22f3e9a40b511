"""Pairs of texts, the second to be written from the first: translations, summaries; also drawn ones, for tests."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.data.intake.texts import numbered_lines
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import ENCODING, Pair, TextDataset
from suites.nlp.datasets.found import table_of
from suites.nlp.datasets.packed import read_packed, unpacked_name

_log = logging.getLogger(__name__)
_SHORT = 20  # characters up to which any text may be the other side of a pair
_NAMES = {
    "source": ("source", "src", "input", "text", "document", "question", "en"),
    "target": ("target", "tgt", "output", "translation", "summary", "answer", "label"),
}

Numbered = tuple[str, str | None, str | None]  # place, source, target; None for what is no text


class PairDataset(TextDataset[Pair]):
    """Pairs in memory."""

    example_type: ClassVar[type] = Pair

    def texts(self) -> Iterator[str]:
        """Both sides."""
        for example in self.examples:
            yield example.source
            yield example.target

    def sides(self) -> tuple[Iterator[str], Iterator[str]]:
        """All sources and all targets, for vocabularies of their own."""
        return (each.source for each in self.examples), (each.target for each in self.examples)


@register("dataset", exclusive=(("other", "source"), ("other", "target")))
class Pairs(PairDataset):
    """Pairs of a table, or of two files whose lines belong together (Moses, OPUS).

    Args:
        path: TSV, CSV, JSON lines or JSON, or a text file with a source a line; also in a zip, or `.gz`. Of Hugging
            Face's `{"translation": {"en": ..., "de": ...}}` the languages are the columns.
        other: text file with the target of each line of `path`, which is a text file then.
        source: column of the source; null finds it by its name, or takes the first. Of two languages one must be named.
        target: column of the target; null finds it by its name, or takes the second.
        max_ratio: a pair is left out where one side has so many times the other's characters and more than a few;
            null for none.
        max_skipped: share of the pairs that may lack a side or be out of proportion; they are left out and logged.
        encoding: of the files where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        other: str | None = None,
        source: str | None = None,
        target: str | None = None,
        max_ratio: float | None = 50.0,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        if max_ratio is not None and not max_ratio > 1:
            raise AttributeValueError(f"Pairs: max_ratio is {max_ratio}; it must be above 1, or null")
        self.left_out = Tally()
        rows = _of_table(path, source, target, encoding) if other is None else _of_lines(path, other, encoding)

        def read(row: Numbered) -> Pair:
            return Pair(*_checked(*row, max_ratio))

        made = usable(f"Pairs {path}", rows, read, max_skipped, self.left_out, "pairs")
        self._hold(path, [pair for _, pair in made], [row[0].rpartition(":")[2] for row, _ in made], [])


def _checked(where: str, source: str | None, target: str | None, most: float | None) -> tuple[str, str]:
    for side, text in (("source", source), ("target", target)):
        if text is None:
            raise DataError(f"{where}: its {side} is missing or no text: a null, a list or an object")
        if not text.strip():
            raise DataError(f"{where}: its {side} is empty")
    assert source is not None and target is not None
    short, long = sorted((len(source), len(target)))
    if most is not None and long > _SHORT and long > most * short:
        raise DataError(
            f"{where}: one side has {long} characters and the other {short}, more than {most:g} times (max_ratio)"
        )
    return source.strip(), target.strip()


def _of_lines(path: str, other: str, encoding: str | None) -> list[Numbered]:
    first, second = (
        [line for _, line in numbered_lines(read_packed(each), each, encoding, ENCODING)] for each in (path, other)
    )
    if len(first) != len(second):
        raise DataError(
            f"{other}: has {len(second)} lines but {path} has {len(first)}; line n of one must belong to line n of the "
            "other"
        )
    return [(f"{path}:{i}", a, b) for i, (a, b) in enumerate(zip(first, second, strict=True), start=1)]


def _of_table(path: str, source: str | None, target: str | None, encoding: str | None) -> list[Numbered]:
    header = {*_NAMES["source"], *_NAMES["target"], *(name.lower() for name in (source, target) if name)}
    table = table_of(read_packed(path), unpacked_name(path), encoding, header)
    names = list(table.names)
    if table.wrong:
        raise DataError(next(iter(table.wrong.values())))
    if len(names) < 2:
        raise DataError(f"{path}: has {len(names)} column; pairs need two, or a second file of lines, given as `other`")
    named: list[int | None] = []
    for role, given in (("source", source), ("target", target)):
        if given is not None and given not in names:
            raise ConfigError(f"{path}: has no column '{given}' ({role}); there are {listing(names)}")
        known = [name for name in names if name.lower() in _NAMES[role] and name not in (source, target)]
        if languages := [name for name in table.languages if name not in (source, target)]:
            known = languages
        if given is None and len(languages) > 1:
            raise ConfigError(
                f"{path}: holds translations of {listing(table.languages)}; say which way, such as "
                f"source: {table.languages[0]}, target: {table.languages[-1]}"
            )
        named.append(names.index(given) if given is not None else names.index(known[0]) if known else None)
    free = [at for at in range(len(names)) if at not in named]  # columns without a role, in their order
    found = [free.pop(0) if at is None else at for at in named]
    if found[0] == found[1]:
        raise ConfigError(f"{path}: source and target are one column, '{names[found[0]]}'; name both")
    _log.info("%s: sources are in column '%s', targets in column '%s'", path, *(names[at] for at in found))
    return [(f"{table.path}:{line}", cells[found[0]], cells[found[1]]) for line, cells in table.rows]


@register("dataset")
class DrawnPairs(PairDataset):
    """Pairs that are drawn, to see whether a model learns at all: the answer to each source is known.

    Args:
        kind: "sort": digits, to be sorted; "reverse": letters, to be turned round; "dates": "March 7, 1984" or
            "7 Mar 1984", to be written 1984-03-07; "sums": "128+77", to be summed; "copy": two
            words of 2,000 characters that are rare each, of which a letter says which one is to be repeated.
        count: of pairs.
        seed: of the drawing; another seed gives other pairs, as evaluation should have.
        longest: digits or letters of a source at most.
    """

    def __init__(
        self,
        kind: Literal["sort", "reverse", "dates", "sums", "copy"] = "sort",
        count: int = 10000,
        seed: int = 0,
        longest: int = 10,
    ) -> None:
        if count < 1 or longest < 2:
            raise AttributeValueError(f"DrawnPairs: count is {count} and longest {longest}; at least 1 and 2")
        rng = np.random.default_rng([seed, count])
        draw: Callable[[np.random.Generator, int], Pair] = _DRAWN[kind]
        pairs = [draw(rng, longest) for _ in range(count)]
        self._hold(f"drawn/{kind}", pairs, [str(i + 1) for i in range(count)], [])


def _sort(rng: np.random.Generator, longest: int) -> Pair:
    digits = rng.integers(0, 10, int(rng.integers(2, longest + 1))).tolist()
    return Pair(" ".join(map(str, digits)), " ".join(map(str, sorted(digits))))


def _reverse(rng: np.random.Generator, longest: int) -> Pair:
    text = "".join(chr(97 + int(i)) for i in rng.integers(0, 26, int(rng.integers(2, longest + 1))))
    return Pair(text, text[::-1])


def _dates(rng: np.random.Generator, longest: int) -> Pair:
    day = datetime.date(1950, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 27000)))
    month = _MONTHS[day.month - 1]
    forms: Sequence[str] = (
        f"{month} {day.day}, {day.year}",
        f"{day.day} {month} {day.year}",
        f"{day.day} {month[:3]} {day.year}",
        f"{day.month}/{day.day}/{day.year}",
    )
    return Pair(forms[int(rng.integers(len(forms)))], day.isoformat())


def _sums(rng: np.random.Generator, longest: int) -> Pair:
    a, b = (int(x) for x in rng.integers(0, 1000, 2))
    return Pair(f"{a}+{b}", str(a + b))


def _copy(rng: np.random.Generator, longest: int) -> Pair:
    kept, other = ("".join(chr(0x4E00 + int(i)) for i in rng.integers(0, 2000, int(rng.integers(1, longest // 2 + 1))))
                   for _ in range(2))  # fmt: skip
    first = bool(rng.integers(2))
    return Pair(f"{kept}|{other}|a" if first else f"{other}|{kept}|b", f"{kept}!")


_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DRAWN = {"sort": _sort, "reverse": _reverse, "dates": _dates, "sums": _sums, "copy": _copy}
