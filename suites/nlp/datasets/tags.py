"""Sentences with a tag for each word: CharTags (a word and its tag a line) and TaggedTsv (ERNIE's format)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import ClassVar

from framework.errors import DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Tagged, TextDataset, read_lines

_INNER = "\x02"  # between the words of a cell in ERNIE's format


class TagDataset(TextDataset[Tagged]):
    """Tagged sentences of one file; the tags are BIO or BMES/BIOES with a type, such as B-PER."""

    example_type: ClassVar[type] = Tagged

    def texts(self) -> Iterator[str]:
        """All words."""
        for example in self.examples:
            yield from example.words

    def _hold_sentences(self, path: str, sentences: list[tuple[int, Tagged]]) -> None:
        tags = sorted({tag for _, sentence in sentences for tag in sentence.tags})
        self._hold(path, [s for _, s in sentences], [str(number) for number, _ in sentences], tags)


@register("dataset")
class CharTags(TagDataset):
    """A word, a space and its tag in each line; an empty line ends a sentence (CoNLL, character files in BMES or BIO).

    Args:
        path: the file, also inside a zip.
        separator: what stands between word and tag; null for any space or tab.
        max_skipped: share of the sentences that may be wrong; they are left out and logged. 0: the first is an error.
    """

    def __init__(self, path: str, separator: str | None = None, max_skipped: float = MAX_SKIPPED) -> None:
        self.left_out = Tally()

        def word(number: int, line: str) -> tuple[str, str]:
            cells = line.rsplit(separator, 1) if separator else line.rsplit(maxsplit=1)
            if len(cells) != 2 or not cells[0] or not cells[1]:
                raise DataError(f"{path}:{number}: expects 'word tag', found '{line[:40]}'")
            return cells[0], _checked(path, number, cells[1])

        def sentence(lines: list[tuple[int, str]]) -> Tagged:
            words, tags = zip(*(word(number, line) for number, line in lines), strict=True)
            return Tagged(words, tags)

        groups = groupby(read_lines(path), lambda line: bool(line[1].strip(" \t")))
        sentences = [list(lines) for filled, lines in groups if filled]
        found = usable(f"CharTags {path}", sentences, sentence, max_skipped, self.left_out)
        self._hold_sentences(path, [(lines[0][0], made) for lines, made in found])


@register("dataset")
class TaggedTsv(TagDataset):
    """ERNIE's task format: a header `text_a<TAB>label`, then a sentence a line, words and tags joined by U+0002.

    Args:
        path: the file, also inside a zip.
        text: column of the words.
        label: column of the tags.
        columns: names of the columns, for a file without a header line; null where the first line names them.
        max_skipped: share of the sentences that may be wrong; they are left out and logged. 0: the first is an error.
    """

    def __init__(
        self,
        path: str,
        text: str = "text_a",
        label: str = "label",
        columns: list[str] | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        self.left_out = Tally()
        lines = [(number, line) for number, line in read_lines(path, max_skipped, self.left_out) if line]
        if columns is None:
            columns = lines.pop(0)[1].split("\t") if lines else []
        if text not in columns or label not in columns:
            raise DataError(
                f"TaggedTsv {path}: columns are {', '.join(columns)[:80]}; expects '{text}' and '{label}' among them, "
                "in the first line or by the argument columns"
            )
        places = columns.index(text), columns.index(label), len(columns)
        found = usable(f"TaggedTsv {path}", lines, partial(_tagged, path, places), max_skipped, self.left_out)
        self._hold_sentences(path, [(number, made) for (number, _), made in found])


def _tagged(path: str, places: tuple[int, int, int], row: tuple[int, str]) -> Tagged:
    """The sentence of a line, given the places of its words and tags and the number of columns."""
    (number, line), (text, label, count) = row, places
    cells = line.split("\t")
    if len(cells) != count:
        raise DataError(f"{path}:{number}: has {len(cells)} columns but the header {count}")
    words = cells[text].split(_INNER)
    tags = [_checked(path, number, tag) for tag in cells[label].split(_INNER)]
    if len(words) != len(tags):
        raise DataError(
            f"{path}:{number}: has {len(words)} words but {len(tags)} tags; each word needs one, "
            "words and tags are joined by U+0002"
        )
    return Tagged(tuple(words), tuple(tags))


def _checked(path: str, number: int, tag: str) -> str:
    prefix, _, kind = tag.partition("-")
    if tag == "O" or (prefix in ("B", "I", "M", "E", "S") and kind):
        return tag
    raise DataError(f"{path}:{number}: '{tag[:20]}' is no tag; expects O, or B-, I-, M-, E- or S- and a type")
