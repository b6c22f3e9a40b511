"""What text data sets hold: labelled texts, tagged sentences, questions, documents, each known by file and line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.texts import decoded, numbered_lines, unique_keys
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.nlp.datasets.packed import read_packed

_log = logging.getLogger(__name__)
_SHOWN = 12  # labels in a message
ENCODING = "encoding of the data sets (data.train.dataset.encoding)"  # the option, in messages


@dataclass(frozen=True)
class Labelled:
    """A text, or a pair of texts, with its label.

    Attributes:
        text: the text.
        pair: the second text, or None.
        label: a class's name, or a number as text; "" where it is not known.
        group: what it is ranked within, such as a query's number; "" where there is none.
        negatives: texts that do not fit `text`, where the second one does.
    """

    text: str
    pair: str | None = None
    label: str = ""
    group: str = ""
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """A text, and what is to be written from it: its translation, say.

    Attributes:
        source: the text.
        target: the other text; or its beginning, "" for none, where it is not known.
    """

    source: str
    target: str = ""


@dataclass(frozen=True)
class Tagged:
    """A sentence as words (characters, in Chinese) with a tag each; no tags where they are not known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question on a passage.

    Attributes:
        key: its number in the file.
        question: the question.
        passage: the text that holds the answer.
        answers: texts that are right.
        starts: first character of each answer in the passage.
        impossible: the passage holds no answer (SQuAD 2.0).
    """

    key: str
    question: str
    passage: str
    answers: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    impossible: bool = False


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document, and which characters belong together.

    Attributes:
        text: the sentence.
        words: int32 [len(text)], number of the word that a character belongs to; -1 for none, as spaces.
        names: int32 [len(text)], number of the name or longer phrase that a character belongs to; -1 for none.
    """

    text: str
    words: np.ndarray
    names: np.ndarray


@dataclass(frozen=True)
class Passage:
    """Running text, such as a book, or the beginning of one."""

    text: str


@dataclass(frozen=True)
class Document:
    """Sentences that follow each other."""

    sentences: tuple[Sentence, ...]


Example = TypeVar("Example", Labelled, Pair, Tagged, Question, Passage, Document)


class TextDataset(Generic[Example]):
    """Examples of one kind in memory, in the file's order.

    Attributes:
        example_type: what its examples are.
        path: the file.
        examples: all of them.
        places: what names each in a message: a line, or a question's number.
        left_out: rows that are wrong and were skipped.
    """

    example_type: ClassVar[type]
    path: str
    examples: Sequence[Example]
    places: Sequence[str]
    left_out: Tally

    def _hold(self, path: str, examples: Sequence[Example], places: Sequence[str], labels: Sequence[str]) -> None:
        """Take in what was read; `labels` are all labels in it, for the log. Raises DataError if there is nothing."""
        if not examples:
            raise DataError(f"{type(self).__name__} {path}: there are no examples")
        self.path, self.examples, self.places = path, examples, places
        counts = {label: labels.count(label) for label in sorted(set(labels))} if len(set(labels)) <= _SHOWN else {}
        shown = f" ({', '.join(f'{label} {count}' for label, count in counts.items())})" if counts else ""
        _log.info("%s %s: %d examples%s", type(self).__name__, path, len(examples), shown)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Example:
        return self.examples[index]

    def name_of(self, index: int) -> str:
        """File and line of an example, for messages."""
        return f"{self.path}:{self.places[index]}"

    def texts(self) -> Iterator[str]:
        """All texts, to build a vocabulary from."""
        raise NotImplementedError


register_role("dataset", TextDataset, doc="Labelled texts, tagged sentences, questions or documents.")


def read_text(path: str) -> str:
    """A text file, also inside a zip, or `.gz`, without its byte-order mark.

    Raises DataError where it is no UTF-8 and has no mark.
    """
    return decoded(read_packed(path), path)


def read_lines(
    path: str, share: float = 0.0, left_out: Tally | None = None, encoding: str | None = None
) -> list[tuple[int, str]]:
    """(number from 1, line without its end) of a text file, also inside a zip, or `.gz`; see `numbered_lines`.

    Args:
        path: of the file.
        share: of the lines that may be no text; they are left out and logged.
        left_out: where these are noted.
        encoding: of the file where no byte-order mark says it; None for UTF-8.
    """
    return numbered_lines(read_packed(path), path, encoding, ENCODING, max_skipped=share, left_out=left_out)


def parse_json(where: str, text: str) -> Any:
    """A JSON value; DataError says what is wrong and where."""
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: is no JSON ({error})") from None
