"""Sentences with a tag for each word: CharTags (a word and its tag a line) and TaggedTsv (ERNIE's format)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from framework.errors import DataError
from suites.engine.registry import register
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
    """

    def __init__(self, path: str, separator: str | None = None) -> None:
        sentences: list[tuple[int, Tagged]] = []
        words: list[str] = []
        tags: list[str] = []
        first = 1
        for number, line in [*read_lines(path), (0, "")]:
            if line.strip(" \t"):
                first = first if words else number
                cells = line.rsplit(separator, 1) if separator else line.rsplit(maxsplit=1)
                if len(cells) != 2 or not cells[0] or not cells[1]:
                    raise DataError(f"{path}:{number}: expects 'word tag', found '{line[:40]}'")
                words.append(cells[0])
                tags.append(_checked(path, number, cells[1]))
            elif words:
                sentences.append((first, Tagged(tuple(words), tuple(tags))))
                words, tags = [], []
        self._hold_sentences(path, sentences)


@register("dataset")
class TaggedTsv(TagDataset):
    """ERNIE's task format: a header `text_a<TAB>label`, then a sentence a line, words and tags joined by U+0002.

    Args:
        path: the file, also inside a zip.
        text: column of the words.
        label: column of the tags.
        columns: names of the columns, for a file without a header line; null where the first line names them.
    """

    def __init__(self, path: str, text: str = "text_a", label: str = "label", columns: list[str] | None = None) -> None:
        lines = [(number, line) for number, line in read_lines(path) if line]
        if columns is None:
            columns = lines.pop(0)[1].split("\t") if lines else []
        if text not in columns or label not in columns:
            raise DataError(
                f"TaggedTsv {path}: columns are {', '.join(columns)[:80]}; expects '{text}' and '{label}' among them, "
                "in the first line or by the argument columns"
            )
        sentences = []
        for number, line in lines:
            cells = line.split("\t")
            if len(cells) != len(columns):
                raise DataError(f"{path}:{number}: has {len(cells)} columns but the header {len(columns)}")
            words = cells[columns.index(text)].split(_INNER)
            tags = [_checked(path, number, tag) for tag in cells[columns.index(label)].split(_INNER)]
            if len(words) != len(tags):
                raise DataError(
                    f"{path}:{number}: has {len(words)} words but {len(tags)} tags; each word needs one, "
                    "words and tags are joined by U+0002"
                )
            sentences.append((number, Tagged(tuple(words), tuple(tags))))
        self._hold_sentences(path, sentences)


def _checked(path: str, number: int, tag: str) -> str:
    prefix, _, kind = tag.partition("-")
    if tag == "O" or (prefix in ("B", "I", "M", "E", "S") and kind):
        return tag
    raise DataError(f"{path}:{number}: '{tag[:20]}' is no tag; expects O, or B-, I-, M-, E- or S- and a type")
