"""Answers to questions: exact match and F1, as SQuAD (Rajpurkar et al. 2016, 2018) and CMRC 2018 / DRCD count them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.engine.reporting import Case

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
    of characters (words of Latin letters) that both share. As in SQuAD 2.0's script right answers of which nothing is
    left, such as "the", do not count; where none counts, nothing must be left of what was given.
    """
    left = _english_words if language == "english" else _unmarked
    right = [answer for answer in answers if left(answer)]
    if not right:
        return (0.0, 0.0) if left(found) else (1.0, 1.0)
    compare = _english if language == "english" else _chinese
    pairs = [compare(found, answer) for answer in right]
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


class Found(NamedTuple):
    """What the windows at hand say of a question.

    Attributes:
        example: its number.
        score: of the best answer, -infinity if there is none.
        text: the best answer.
        null: score of there being no answer, the lowest of the windows.
    """

    example: int
    score: float
    text: str
    null: float


class ReadingScores(Metric):
    """Figures: `exact` and `f1`, means over questions, and their mean `average`.

    With a threshold also those of SQuAD 2.0: `HasAns_exact`, `HasAns_f1`, `NoAns_exact`, `NoAns_f1` of questions with
    and without answers, where there are any, and `best_exact`, `best_exact_thresh`, `best_f1`, `best_f1_thresh`: what
    the best thresholds would give (see `best_threshold`).

    A question's windows may lie in several batches; what is kept of each is its best answer.

    Args:
        truth: right answers of each question; none where it has no answer.
        language: how answers are compared.
        gather: from the outputs of a batch to what they say.
        threshold: no answer is given where the score of none is higher than the best answer's by more than this; None
            always gives the best answer.
    """

    def __init__(
        self,
        truth: Sequence[Sequence[str]],
        language: Language,
        gather: Callable[[Mapping[str, np.ndarray], Batch], list[Found]],
        threshold: float | None = None,
    ) -> None:
        self._truth = truth
        self._language: Language = language
        self._gather = gather
        self._threshold = threshold
        self._best: dict[int, Found] = {}

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `starts` and `ends` [T], scores of the first and the last token of the answer."""
        self._take(self._gather(outputs, batch))

    def _take(self, answers: Iterable[Found]) -> None:
        for found in answers:
            before = self._best.get(found.example, found)
            best = found if found.score > before.score else before
            self._best[found.example] = best._replace(null=min(found.null, before.null))

    def state(self) -> dict[str, Any]:
        """The best answer to each question: its number, score, text and score of no answer."""
        return {"best": [list(found) for found in self._best.values()]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Take in answers to other questions, or of other windows of the same ones."""
        self._take(Found(*found) for found in state["best"])

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The questions with the surest answers that share nothing with the right ones."""
        given = {f.example: "" if self._none_given(f) else f.text for f in self._best.values()}
        wrong = [f for f in self._best.values() if self._figures(given[f.example], f.example)[1] == 0]
        wrong.sort(key=lambda f: (-f.score if np.isfinite(f.score) else np.inf, f.example))
        why = "said '{}', but it is '{}'".format
        cases = []
        for found in wrong[:count]:
            right = " / ".join(dict.fromkeys(self._truth[found.example])) or "(no answer)"
            cases.append(Case(found.example, why(given[found.example] or "(no answer)", right), given[found.example]))
        return {"Most confident mistakes": cases}

    def _none_given(self, found: Found) -> bool:
        return self._threshold is not None and null_odds(found) > self._threshold

    def result(self) -> dict[str, float]:
        """The figures over the questions seen, as shares of 1."""
        each = [(found, self._figures(found.text, found.example)) for found in self._best.values()]
        if self._threshold is None:
            return _means([figures for _, figures in each])
        answered = [bool(self._truth[f.example]) for f, _ in each]
        none = [(float(not has), float(not has)) for has in answered]  # whatever is left of its answers
        chosen = [none[i] if null_odds(f) > self._threshold else figures for i, (f, figures) in enumerate(each)]
        result = _means(chosen)
        for name, kind in (("HasAns", True), ("NoAns", False)):
            own = [figures for figures, has in zip(chosen, answered, strict=True) if has is kind]
            if own:
                result |= {f"{name}_{key}": value for key, value in _means(own).items() if key != "average"}
        odds = [null_odds(found) for found, _ in each]
        for column, name in enumerate(("exact", "f1")):
            scores = [figures[column] for _, figures in each]
            empty = [not found.text for found, _ in each]
            result[f"best_{name}"], result[f"best_{name}_thresh"] = best_threshold(scores, answered, empty, odds)
        return result

    def _figures(self, text: str, example: int) -> tuple[float, float]:
        return answer_figures(text, self._truth[example], self._language)


def null_odds(found: Found) -> float:
    """By how much the score of no answer is above the best answer's."""
    return found.null - found.score if np.isfinite(found.score) else np.inf


def best_threshold(
    scores: Sequence[float], answered: Sequence[bool], empty: Sequence[bool], odds: Sequence[float]
) -> tuple[float, float]:
    """The highest mean score that a threshold on `odds` gives, and that threshold, as SQuAD 2.0's script defines them.

    Questions are answered from the lowest odds on. One with answers adds its score; one without takes off 1, which it
    had as long as it was not answered, unless what was given is empty.

    Args:
        scores: of each question's answer, if it is given.
        answered: whether a question has an answer.
        empty: whether what is given as its answer is empty.
        odds: of there being no answer.
    """
    best = now = float(len(answered) - sum(answered))
    threshold = 0.0
    for i in sorted(range(len(odds)), key=lambda i: odds[i]):
        now += scores[i] if answered[i] else (0.0 if empty[i] else -1.0)
        if now > best:
            best, threshold = now, odds[i]
    return best / len(odds), float(threshold)


def _means(figures: Sequence[tuple[float, float]]) -> dict[str, float]:
    exact, f1 = (float(np.mean(column)) for column in zip(*figures, strict=True))
    return {"exact": exact, "f1": f1, "average": (exact + f1) / 2}
