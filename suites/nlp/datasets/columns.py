"""Columns of files with a word a line, and the forms in which tags are written.

Formats: CoNLL-2003 (word, part of speech, chunk, tag), CoNLL-U (https://universaldependencies.org/format.html), files
of a word and its tag. Tags in IOB1, IOB2 (BIO), BIOES/BMES and BILOU (Ratinov and Roth 2009, section 3.1).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from framework.errors import ConfigError, DataError
from suites.nlp.datasets.base import Tagged

_log = logging.getLogger(__name__)
TAG = re.compile(r"O|[BIMESLU]-.+", re.DOTALL)
_DOCUMENT = "-DOCSTART-"
_UNITS = re.compile(r"[0-9]+[-.][0-9]+")  # CoNLL-U's ranges of words and empty nodes
_BILOU = {"L": "E", "U": "S"}
Line = tuple[int, str]


@dataclass(frozen=True)
class Columns:
    """How the lines of a file are cut.

    Attributes:
        count: columns of a line; 0 for a word, which may hold spaces, and its tag behind the last separator.
        word, tag: places of the two.
        separator: between columns; None for any space.
    """

    count: int
    word: int
    tag: int
    separator: str | None = None

    def cells(self, line: str) -> list[str]:
        """The cells of a line."""
        if not self.count:
            return line.rsplit(self.separator, 1) if self.separator else line.rsplit(maxsplit=1)
        return line.split(self.separator)


def is_tag(text: str) -> bool:
    """Whether a text is O, or B-, I-, M-, E-, S-, L- or U- and a type."""
    return TAG.fullmatch(text) is not None


def find_columns(path: str, lines: Sequence[Line], separator: str | None, word: int | None, tag: int | None) -> Columns:
    """The columns of a file, by what most of its lines hold.

    Args:
        path: the file, for messages.
        lines: those that are not empty.
        separator: between columns; None for tabs where lines have some, else for any space.
        word, tag: places that the user gives, from 0, or from -1 backwards; None to find them.

    Raises:
        DataError: no column holds tags, or several could be the one.
        ConfigError: there is no such column.
    """
    if separator is None and sum("\t" in line for _, line in lines) > len(lines) / 2:
        separator = "\t"
    rows = [line.split(separator) for _, line in lines if not line.startswith((_DOCUMENT, "# "))]
    rows = [row for row in rows if not (len(row) > 2 and _UNITS.fullmatch(row[0]))]
    count = Counter(map(len, rows)).most_common(1)[0][0] if rows else 2
    if count <= 2 and word is None and tag is None:
        return Columns(0, 0, 1, separator)
    usual = [row for row in rows if len(row) == count]
    for name, place in (("word", word), ("tag", tag)):
        if place is not None and not -count <= place < count:
            raise ConfigError(f"CharTags {path}: {name} is {place}, but lines have {count} columns, 0 to {count - 1}")
    found_tag = _tag_column(path, usual, count) if tag is None else tag % count
    numbered = all(row[0].replace("-", "").replace(".", "").isdigit() for row in usual)
    found_word = (1 if numbered and count > 2 else 0) if word is None else word % count
    found = Columns(count, found_word, found_tag, separator)
    _log.info("%s: lines have %d columns; words are in column %d, tags in %d", path, count, found.word, found.tag)
    return found


def _tag_column(path: str, rows: Sequence[Sequence[str]], count: int) -> int:
    """The last column where it holds tags, else the only one that does."""
    holds = [at for at in range(count) if sum(is_tag(row[at]) for row in rows) > 0.95 * len(rows)]
    if count - 1 in holds:
        return count - 1
    if len(holds) == 1:
        return holds[0]
    what = (
        f"columns {', '.join(map(str, holds))} all hold tags" if holds else "no column holds tags such as O and B-PER"
    )
    raise DataError(f"{path}: lines have {count} columns, and {what}; say which with tag: N, from 0")


def sentences_of(path: str, lines: Sequence[Line], columns: Columns) -> list[list[Line]]:
    """The lines of each sentence: between empty lines, without remarks, and without the marks of documents."""
    found: list[list[Line]] = [[]]
    for number, line in lines:
        cells = columns.cells(line)
        if not line.strip(" \t") or line.startswith(_DOCUMENT):
            found.append([])
        elif not _is_remark(line, cells, columns) and not (columns.count > 2 and _UNITS.fullmatch(cells[0])):
            found[-1].append((number, line))
    return [lines for lines in found if lines]


def _is_remark(line: str, cells: Sequence[str], columns: Columns) -> bool:
    expected = columns.count or 2
    return line.startswith("#") and (len(cells) != expected or not is_tag(cells[columns.tag]))


def in_one_form(path: str, sentences: Sequence[Tagged]) -> list[Tagged]:
    """The sentences with tags in BIO or BIOES: BILOU's letters are those of BIOES, and IOB1's first I is a B."""
    prefixes = {tag[0] for sentence in sentences for tag in sentence.tags if tag != "O"}
    if prefixes & {"L", "U"}:
        if prefixes & {"E", "S", "M"}:
            raise DataError(f"{path}: tags begin with {', '.join(sorted(prefixes))}, which mixes BILOU and BIOES")
        _log.info("%s: tags are in BILOU; L and U become E and S", path)
        return [replace(s, tags=tuple(_BILOU.get(t[0], t[0]) + t[1:] for t in s.tags)) for s in sentences]
    if prefixes <= {"B", "I"} and _is_iob1(sentences):
        _log.info("%s: tags are in IOB1, where most names begin with I; they become BIO", path)
        return [replace(sentence, tags=_from_iob1(sentence.tags)) for sentence in sentences]
    return list(sentences)


def _is_iob1(sentences: Sequence[Tagged]) -> bool:
    """Whether names begin with I, and with B only behind another name of their type."""
    pairs = [pair for s in sentences for pair in zip(("O", *s.tags), s.tags, strict=False)]
    begins = sum(tag[0] == "I" and before[1:] != tag[1:] for before, tag in pairs)
    lone = any(tag[0] == "B" and before[1:] != tag[1:] for before, tag in pairs)
    return begins > 0 and not lone


def _from_iob1(tags: Sequence[str]) -> tuple[str, ...]:
    before = ("O", *tags)
    return tuple(
        f"B{tag[1:]}" if tag[0] == "I" and previous[1:] != tag[1:] else tag
        for previous, tag in zip(before, tags, strict=False)
    )
