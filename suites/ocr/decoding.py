"""From what a recogniser says of each column to a text: CTC without blanks and repetitions (Graves et al. 2006).

Letters: N lines, T columns, K classes; class 0 is the blank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from suites.ocr.alphabet import Alphabet


class Read(NamedTuple):
    """A text, and the mean probability of its characters; 0 of an empty one."""

    text: str
    score: float


def greedy(classes: np.ndarray, scores: np.ndarray, alphabet: Alphabet) -> list[Read]:
    """The text of each line, of the most probable class of each column.

    Args:
        classes: integer [N, T].
        scores: float [N, T], their probabilities.
        alphabet: the characters.
    """
    found = []
    for row, probabilities in zip(classes, scores, strict=True):
        kept = row != 0
        kept[1:] &= row[1:] != row[:-1]
        score = float(probabilities[kept].mean()) if kept.any() else 0.0
        found.append(Read(alphabet.text(row[kept].tolist()), score))
    return found


Judge = Callable[[str, str], float]  # log probability of a character behind a text


def beam(scores: np.ndarray, alphabet: Alphabet, width: int = 10, judge: Judge | None = None) -> Read:
    """The most probable text of one line: the sum over all ways in which columns read as it (Hannun et al. 2014).

    Args:
        scores: float [T, K], log probabilities.
        alphabet: the characters.
        width: texts that are followed at a time.
        judge: what a language says of a character behind a text, such as `CharacterModel`; added for each character.

    Returns:
        The text, and its probability without the judge, to the power of 1 / T.
    """
    texts: dict[tuple[int, ...], tuple[float, float, float]] = {(): (0.0, -math.inf, 0.0)}  # ends in blank, not, judge
    for row in scores.astype(np.float64).tolist():
        likely = np.argsort(-np.array(row))[: 2 * width].tolist()
        following: dict[tuple[int, ...], list[float]] = {}
        for text, (blank, other, judged) in texts.items():
            place = following.setdefault(text, [-math.inf, -math.inf, judged])
            place[0] = _log_sum(place[0], _log_sum(blank, other) + row[0])
            if text:
                place[1] = _log_sum(place[1], other + row[text[-1]])
            for k in likely:
                if k == 0:
                    continue
                longer = (*text, k)
                if longer not in following:
                    more = judge(alphabet.text(text), alphabet.text([k])) if judge else 0.0
                    following[longer] = [-math.inf, -math.inf, judged + more]
                before = blank if text and k == text[-1] else _log_sum(blank, other)
                following[longer][1] = _log_sum(following[longer][1], before + row[k])
        best = sorted(following.items(), key=lambda item: -(_log_sum(item[1][0], item[1][1]) + item[1][2]))[:width]
        texts = {text: (found[0], found[1], found[2]) for text, found in best}
    text, (blank, other, _) = next(iter(texts.items()))
    return Read(alphabet.text(text), math.exp(_log_sum(blank, other) / max(len(scores), 1)))


def _log_sum(one: float, two: float) -> float:
    return float(np.logaddexp(one, two))


class CharacterModel:
    """How probable a character is behind the two before it, counted in texts; what was never seen is rare, not absent.

    Args:
        texts: to count in.
        alphabet: its characters are those that may follow.
        weight: of the language beside the picture: its log probabilities times this.
    """

    def __init__(self, texts: Iterable[str], alphabet: Alphabet, weight: float = 0.5) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._size, self._weight = len(alphabet), weight
        for text in texts:
            for at, character in enumerate(text):
                place = self._counts.setdefault(text[max(at - 2, 0) : at], {})
                place[character] = place.get(character, 0) + 1

    def __call__(self, text: str, character: str) -> float:
        """Its weighted log probability."""
        seen = self._counts.get(text[-2:], {})
        return self._weight * math.log((seen.get(character, 0) + 0.1) / (sum(seen.values()) + 0.1 * self._size))
