"""Sentences with a tag for each word: CharTags (a word and its tag a line) and TaggedTsv (ERNIE's format)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from framework.errors import DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Tagged, TextDataset, read_lines
from suites.nlp.datasets.columns import find_columns, in_one_form, is_tag, sentences_of

_INNER = "\x02"  # between the words of a cell in ERNIE's format


class TagDataset(TextDataset[Tagged]):
    """Tagged sentences of one file; the tags are BIO or BMES/BIOES with a type, such as B-PER."""

    example_type: ClassVar[type] = Tagged

    def texts(self) -> Iterator[str]:
        """All words."""
        for example in self.examples:
            yield from example.words

    def _hold_sentences(self, path: str, sentences: list[tuple[int, Tagged]]) -> None:
        found = in_one_form(path, [sentence for _, sentence in sentences])
        tags = sorted({tag for sentence in found for tag in sentence.tags})
        self._hold(path, found, [str(number) for number, _ in sentences], tags)


@register("dataset")
class CharTags(TagDataset):
    """A word and its tag in each line, or several columns; an empty line ends a sentence.

    CoNLL-2003 and its kin have the word in the first column and the tag in the last. Where the first column numbers the
    words, as in CoNLL-U, the word is in the second, and the tag where all cells are tags. Lines `-DOCSTART-` and
    remarks (`# ...`) are left out. Tags in IOB1 and BILOU become BIO and BIOES.

    Args:
        path: the file, also inside a zip.
        separator: what stands between columns; null for tabs where lines have them, else for any space.
        word: column of the words, from 0; null to find it.
        tag: column of the tags; null to find it.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
        max_skipped: share of the sentences that may be wrong; they are left out and logged. 0: the first is an error.
    """

    def __init__(
        self,
        path: str,
        separator: str | None = None,
        max_skipped: float = MAX_SKIPPED,
        word: int | None = None,
        tag: int | None = None,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        lines = read_lines(path, encoding=encoding)
        columns = find_columns(path, [line for line in lines if line[1].strip(" \t")], separator, word, tag)

        def pair(number: int, line: str) -> tuple[str, str]:
            cells = columns.cells(line)
            if len(cells) != (columns.count or 2) or not cells[columns.word] or not cells[columns.tag]:
                wanted = f"{columns.count} columns" if columns.count else "'word tag'"
                raise DataError(f"{path}:{number}: expects {wanted}, found '{line[:40]}'")
            return cells[columns.word], _checked(path, number, cells[columns.tag])

        def sentence(lines: list[tuple[int, str]]) -> Tagged:
            words, tags = zip(*(pair(number, line) for number, line in lines), strict=True)
            return Tagged(words, tags)

        sentences = sentences_of(path, lines, columns)
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
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        text: str = "text_a",
        label: str = "label",
        columns: list[str] | None = None,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        self.left_out = Tally()
        lines = [(number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line]
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
    if is_tag(tag):
        return tag
    raise DataError(f"{path}:{number}: '{tag[:20]}' is no tag; expects O, or B-, I-, M-, E-, S-, L- or U- and a type")
