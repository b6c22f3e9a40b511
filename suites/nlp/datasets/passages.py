"""SquadJson: questions on passages in the format of SQuAD 1.1 and 2.0, which DRCD and CMRC 2018 use too."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Question, TextDataset, parse_json, read_text

_log = logging.getLogger(__name__)
_NEAR = 20  # characters by which an answer's stated place may be off


@register("dataset", needs={"split": "holdout"})
class SquadJson(TextDataset[Question]):
    """Questions, each with the passage that holds its answer; or, by `is_impossible` of SQuAD 2.0, does not.

    An answer that does not stand where the file says is looked for nearby, which is counted in the log.

    Args:
        path: the JSON file, also inside a zip.
        holdout: with 10, every tenth paragraph is for evaluation, equal ones together; null where there are two files.
        split: with `holdout`, which part: "train" or "val".
        missing: what to do where an answer is not in its passage: "error" names the question, "skip" leaves it out.
        max_skipped: share of the questions that may be wrong; they are left out and logged. 0: the first one is an
            error.
    """

    example_type: ClassVar[type] = Question

    def __init__(
        self,
        path: str,
        holdout: int | None = None,
        split: Literal["train", "val"] = "train",
        missing: Literal["error", "skip"] = "error",
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        self.left_out = Tally()
        if holdout is not None and holdout < 2:
            raise AttributeValueError(f"SquadJson: holdout is {holdout}; it must be 2 or more, or null")
        file = parse_json(path, read_text(path))
        paragraphs = [p for article in _list(path, file, "data") for p in _list(path, article, "paragraphs")]
        if holdout is not None:
            numbers = _passage_numbers(paragraphs)
            kept = [(number % holdout == holdout - 1) == (split == "val") for number in numbers]
            paragraphs = [paragraph for paragraph, is_kept in zip(paragraphs, kept, strict=True) if is_kept]
        self._moved = self._skipped = 0
        passages = usable(f"SquadJson {path}", paragraphs, lambda p: _passage(path, p), max_skipped, self.left_out)
        entries = [(passage, entry) for _, (passage, qas) in passages for entry in qas]
        made = usable(
            f"SquadJson {path}", entries, lambda e: self._question(path, *e, missing), max_skipped, self.left_out
        )
        questions = [question for _, question in made if question is not None]
        if self._moved or self._skipped:
            _log.warning(
                "SquadJson %s: %d answers stood at another place than the file says; %d questions were left out, "
                "whose answer is not in the passage",
                path,
                self._moved,
                self._skipped,
            )
        if not questions and holdout is not None and not paragraphs:
            raise DataError(
                f"SquadJson {path}: has no paragraph for part '{split}', as every {holdout}. one is for evaluation "
                "(holdout); make holdout smaller, or name a file for each part"
            )
        self._hold(path, questions, [f"question {question.key}" for question in questions], [])

    def texts(self) -> Iterator[str]:
        """Questions and passages."""
        for example in self.examples:
            yield example.question
            yield example.passage

    def _question(self, path: str, passage: str, entry: Any, missing: str) -> Question | None:
        """A question; None for one that is left out."""
        key = str(_get(path, entry, "id"))
        where = f"{path}:question {key}"
        found = [self._located(where, passage, answer) for answer in _list(where, entry, "answers")]
        answers = [answer for answer in found if answer is not None]
        if found and not answers:
            if missing == "error":
                text = _text(where, entry["answers"][0], "text")
                raise DataError(
                    f"{where}: the answer '{text[:40]}' is not in its passage; correct the file, "
                    "or leave such questions out with missing: skip"
                )
            self._skipped += 1
            return None
        texts, starts = tuple(text for text, _ in answers), tuple(start for _, start in answers)
        impossible = _flag(where, entry, "is_impossible")
        if impossible and texts:
            raise DataError(f"{where}: is_impossible is true but it has the answer '{texts[0][:40]}'; correct the file")
        question = _text(where, entry, "question")
        if not question.strip() or not passage.strip():
            raise DataError(f"{where}: {'its passage' if question.strip() else 'the question'} is empty")
        return Question(key, question, passage, texts, starts, impossible)

    def _located(self, where: str, passage: str, answer: Any) -> tuple[str, int] | None:
        """Text and first character of an answer; None where the passage does not hold it."""
        text, start = _text(where, answer, "text"), _get(where, answer, "answer_start")
        if type(start) is not int or not text.strip():
            raise DataError(f"{where}: an answer has text '{text[:40]}' and answer_start {start!r:.40}")
        if start >= 0 and passage.startswith(text, start):
            return text, start
        near = passage.find(text, max(start - _NEAR, 0))
        if near < 0:
            near = passage.find(text)
        if near < 0:
            return None
        self._moved += 1
        return text, near


def _passage_numbers(paragraphs: Sequence[Any]) -> list[int]:
    """Numbers of paragraphs, equal ones of equal passages: files of one question a paragraph repeat them."""
    seen: dict[object, int] = {}
    texts = (each.get("context") if isinstance(each, dict) else None for each in paragraphs)
    return [seen.setdefault(text if isinstance(text, str) else at, len(seen)) for at, text in enumerate(texts)]


def _passage(path: str, paragraph: Any) -> tuple[str, list[Any]]:
    """The text of a paragraph, and its questions as they stand there."""
    return _text(path, paragraph, "context"), _list(path, paragraph, "qas")


def _get(where: str, entry: Any, key: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        found = ", ".join(map(str, entry)) if isinstance(entry, dict) else type(entry).__name__
        raise DataError(f"{where}: expects '{key}' as SQuAD 1.1 has it, found {found[:80]}")
    return entry[key]


def _list(where: str, entry: Any, key: str) -> list[Any]:
    value = _get(where, entry, key)
    if not isinstance(value, list):
        raise DataError(f"{where}: '{key}' is {value!r:.40}; expects a list as SQuAD 1.1 has it")
    return value


def _flag(where: str, entry: Any, key: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise DataError(f"{where}: '{key}' is {value!r:.40}; expects true or false as SQuAD 2.0 has it")
    return value


def _text(where: str, entry: Any, key: str) -> str:
    value = _get(where, entry, key)
    if not isinstance(value, str):
        raise DataError(f"{where}: '{key}' is {value!r:.40}; expects text")
    return value
