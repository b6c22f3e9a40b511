"""Documents: plain text to pretrain on, a sentence a line and an empty line between documents.

Words and names, which ERNIE hides as a whole (Sun et al. 2019), come from a second file of the same lines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register
from suites.nlp.datasets.base import Document, Sentence, TextDataset, read_lines
from suites.nlp.tokenizers.words import jieba_cutter

_log = logging.getLogger(__name__)
_WORD = re.compile(r"[^\W\u3400-\u9fff\uf900-\ufaff]+|\S")  # a run of letters and digits, or a single character
_TAGGED = re.compile(r"(?P<word>.+?)/(?P<tag>\w+)(?:\](?P<outer>\w+))?")
_SHOWN = 20  # characters in a message
# Persons, places, organisations, other names and times, as the Peking University corpus, jieba and LAC call them.
NAMES = ("nr", "ns", "nt", "nz", "t", "PER", "LOC", "ORG", "TIME")

Line = tuple[int, str]


class Word(NamedTuple):
    """A word of a segmented line.

    Attributes:
        text: its characters.
        name: number of the name or phrase it belongs to in the line, -1 for none.
        tag: its own tag, "" for none.
        phrase: the tag of the phrase in brackets that it belongs to, "" for none.
    """

    text: str
    name: int = -1
    tag: str = ""
    phrase: str = ""


@register("dataset", exclusive=(("words", "cut"),), needs={"split": "holdout", "names": "words"})
class Documents(TextDataset[Document]):
    """Documents of sentences.

    Args:
        path: UTF-8 text, also inside a zip: a sentence a line, an empty line between documents.
        words: file of the same lines as words with spaces between them, each alone or `word/tag`; `[a/n b/n]nt` is a
            phrase of several words. A line must spell the sentence of `path`, but for spaces. Null for `cut`.
        cut: without `words`, what a word is: a run of letters and digits or a "character", or what "jieba" finds.
        names: tags of names; neighbouring words of one of them are one name.
        holdout: with 10, every tenth document is for evaluation; null where there are two files.
        split: with `holdout`, which part: "train" or "val".
    """

    example_type: ClassVar[type] = Document

    def __init__(
        self,
        path: str,
        words: str | None = None,
        cut: Literal["characters", "jieba"] = "characters",
        names: Sequence[str] = NAMES,
        holdout: int | None = None,
        split: Literal["train", "val"] = "train",
    ) -> None:
        if holdout is not None and holdout < 2:
            raise AttributeValueError(f"Documents: holdout is {holdout}; it must be 2 or more, or null")
        lines = read_lines(path)
        segmented = None if words is None else _paired(path, lines, words)
        groups = [list(group) for filled, group in groupby(lines, lambda line: bool(line[1].strip())) if filled]
        if holdout is not None:
            groups = [g for i, g in enumerate(groups) if (i % holdout == holdout - 1) == (split == "val")]
        cutter = _cutter(cut)

        def sentence(number: int, text: str) -> Sentence:
            if segmented is None:
                return _sentence(text, cutter(text))
            found = parse_words(segmented[number - 1], names)
            if _spelt("".join(word.text for word in found)) != _spelt(text):
                raise DataError(
                    f"{words}:{number}: spells '{''.join(w.text for w in found)[:_SHOWN]}' but {path}:{number} has "
                    f"'{text[:_SHOWN]}'; the words of a line must spell its sentence"
                )
            return _sentence(text, found)

        documents = [Document(tuple(sentence(*line) for line in group)) for group in groups]
        alone = sum(len(document.sentences) == 1 for document in documents)
        if alone:
            _log.info("Documents %s: %d documents have one sentence, so no second that follows it", path, alone)
        self._hold(path, documents, [str(group[0][0]) for group in groups], [])

    def texts(self) -> Iterator[str]:
        """All sentences."""
        for document in self.examples:
            for sentence in document.sentences:
                yield sentence.text


def plain_document(text: str) -> Document:
    """A document of one sentence, whose words are runs of letters and digits and single characters."""
    return Document((_sentence(text, _cutter("characters")(text)),))


def parse_words(line: str, names: Sequence[str] = NAMES) -> list[Word]:
    """The words of a segmented line; see `Documents`."""
    found: list[Word] = []
    inside, last_tag, name, opened = False, "", -1, 0
    for part in line.split():
        opens = part.startswith("[") and len(part) > 1 and not part.startswith("[/")
        tagged = _TAGGED.fullmatch(part[1:] if opens else part)
        if tagged is None:
            found.append(Word(part))
            last_tag = ""
            continue
        word, tag, outer = tagged["word"], tagged["tag"], tagged["outer"]
        if opens and not inside:
            inside, name, opened = True, name + 1, len(found)
        elif not inside and tag in names and tag != last_tag:
            name += 1
        found.append(Word(word, name if inside or tag in names else -1, tag))
        if inside and outer:
            found[opened:] = [each._replace(phrase=outer) for each in found[opened:]]
        last_tag = "" if outer else tag
        inside = inside and not outer
    return found


def _sentence(text: str, words: Sequence[Word]) -> Sentence:
    """`words` spell `text`, but for spaces."""
    places = [i for i, c in enumerate(text) if not c.isspace()]
    numbers, names = np.full((2, len(text)), -1, np.int32)
    lengths = [len(_spelt(word.text)) for word in words]
    numbers[places] = np.repeat(np.arange(len(words)), lengths)
    names[places] = np.repeat(np.array([word.name for word in words], np.int64), lengths)
    return Sentence(text, numbers, names)


def _spelt(text: str) -> str:
    return "".join(text.split())


def _paired(path: str, lines: Sequence[Line], words: str) -> list[str]:
    """The lines of the file of words; as many as the text has."""
    found = [line for _, line in read_lines(words)]
    if len(found) != len(lines):
        raise DataError(
            f"{words}: has {len(found)} lines but {path} has {len(lines)}; each line must be one of the text in words"
        )
    return found


def _cutter(cut: Literal["characters", "jieba"]) -> Callable[[str], list[Word]]:
    if cut == "characters":
        return lambda text: [Word(found) for found in _WORD.findall(text)]
    cutter = jieba_cutter("Documents: cut")
    return lambda text: [Word(word) for word, _, _ in cutter(text)]
