"""Answers to questions: exact match and F1, as SQuAD (Rajpurkar et al. 2016) and CMRC 2018 / DRCD count them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from suites.engine.task import Batch, Metric

Language = Literal["english", "chinese"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_MARKS = frozenset(string.punctuation)
# What CMRC 2018's script leaves out.
_CHINESE_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# Numbers with their points and commas, words, single marks: what its word tokenizer makes of what is not Chinese.
_PIECES = re.compile(r"[\u4e00-\u9fa5]|\d+(?:[.,]\d+)*|[^\W\d\u4e00-\u9fa5][^\W\u4e00-\u9fa5]*|[^\w\s]")


def answer_figures(found: str, answers: Sequence[str], language: Language = "english") -> tuple[float, float]:
    """(exact match, F1) of an answer: the best over the right ones.

    English: without case, marks and articles; F1 over words. Chinese: without case and marks; F1 over the longest run
    of characters (words of Latin letters) that both share.
    """
    compare = _english if language == "english" else _chinese
    pairs = [compare(found, answer) for answer in answers]
    return max(exact for exact, _ in pairs), max(f1 for _, f1 in pairs)


def _english(found: str, answer: str) -> tuple[float, float]:
    a, b = _english_words(found), _english_words(answer)
    if not a or not b:
        return float(a == b), float(a == b)
    return float(a == b), _f1((Counter(a) & Counter(b)).total(), len(a), len(b))


def _english_words(text: str) -> list[str]:
    unmarked = "".join(c for c in text.lower() if c not in _ASCII_MARKS)
    return _ARTICLES.sub(" ", unmarked).split()


def _chinese(found: str, answer: str) -> tuple[float, float]:
    plain, right = _unmarked(found), _unmarked(answer)
    a, b = _PIECES.findall(plain), _PIECES.findall(right)
    return float(plain == right), _f1(_longest_shared_run(a, b), len(a), len(b))


def _unmarked(text: str) -> str:
    return "".join(c for c in text.lower().strip() if c not in _CHINESE_MARKS)


def _longest_shared_run(a: Sequence[str], b: Sequence[str]) -> int:
    best, ends = 0, [0] * (len(b) + 1)
    for x in a:
        ends = [0, *((ends[j] + 1 if x == y else 0) for j, y in enumerate(b))]
        best = max(best, *ends)
    return best


def _f1(shared: int, found: int, expected: int) -> float:
    if not shared:
        return 0.0
    precision, recall = shared / found, shared / expected
    return 2 * precision * recall / (precision + recall)


class ReadingScores(Metric):
    """Figures: `exact` and `f1`, means over questions, and their mean `average`.

    A question's windows may lie in several batches; what is kept of each is its best answers.

    Args:
        truth: right answers of each question.
        language: how answers are compared.
        gather: from the outputs of a batch to (number of the question, its best answers in the windows at hand).
    """

    def __init__(
        self,
        truth: Sequence[Sequence[str]],
        language: Language,
        gather: Callable[[Mapping[str, np.ndarray], Batch], list[tuple[int, list[tuple[float, str]]]]],
    ) -> None:
        self._truth = truth
        self._language: Language = language
        self._gather = gather
        self._best: dict[int, tuple[float, str]] = {}

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `starts` and `ends` [T], scores of the first and the last token of the answer."""
        for example, answers in self._gather(outputs, batch):
            best = max([*answers, self._best.get(example, (-np.inf, ""))], key=lambda answer: answer[0])
            self._best[example] = best

    def result(self) -> dict[str, float]:
        """The figures over the questions seen, as shares of 1."""
        pairs = [answer_figures(text, self._truth[i], self._language) for i, (_, text) in self._best.items()]
        exact, f1 = (float(np.mean(column)) for column in zip(*pairs, strict=True))
        return {"exact": exact, "f1": f1, "average": (exact + f1) / 2}
