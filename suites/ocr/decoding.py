"""From what a recogniser says of each column to a text: CTC without blanks and repetitions (Graves et al. 2006).

Letters: N lines, T columns, K classes; class 0 is the blank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from framework.errors import AttributeValueError
from suites.ocr.alphabet import Alphabet
from suites.ocr.texts import lines_of_file


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


class Judge(Protocol):
    """What a language says of texts."""

    def __call__(self, text: str, character: str) -> float:
        """The log probability of a character behind a text."""

    def ended(self, text: str) -> float:
        """The log probability that a text ends."""


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

    def whole(item: tuple[tuple[int, ...], tuple[float, float, float]]) -> float:
        text, (blank, other, judged) = item
        return _log_sum(blank, other) + judged + (judge.ended(alphabet.text(text)) if judge else 0.0)

    text, (blank, other, _) = max(texts.items(), key=whole)
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
        self.counts: dict[str, dict[str, int]] = {}
        self._size, self._weight = len(alphabet), weight
        for text in texts:
            for at, character in enumerate(text):
                place = self.counts.setdefault(text[max(at - 2, 0) : at], {})
                place[character] = place.get(character, 0) + 1

    def __call__(self, text: str, character: str) -> float:
        """Its weighted log probability."""
        seen = self.counts.get(text[-2:], {})
        return self._weight * math.log((seen.get(character, 0) + 0.1) / (sum(seen.values()) + 0.1 * self._size))

    def ended(self, text: str) -> float:
        """Ends are not counted: 0."""
        return 0.0


class Lexicon:
    """Words, which are runs of letters; one that is not in the list costs once.

    Args:
        words: as they are written.
        penalty: what an unknown word costs, as a log probability.
    """

    def __init__(self, words: Iterable[str], penalty: float = 5.0) -> None:
        self.words = frozenset(word for word in words if word)
        self._begun = frozenset(word[:k] for word in self.words for k in range(1, len(word) + 1))
        self._penalty = penalty

    def __call__(self, text: str, character: str) -> float:
        """-penalty where a word leaves the list, or ends too soon; else 0."""
        word = _last_word(text)
        if not character.isalpha():
            return self.ended(text)
        left = word + character not in self._begun and (not word or word in self._begun)
        return -self._penalty if left else 0.0

    def ended(self, text: str) -> float:
        """-penalty where the last word only begins as one of the list."""
        word = _last_word(text)
        return -self._penalty if word in self._begun and word not in self.words else 0.0


def _last_word(text: str) -> str:
    at = len(text)
    while at and text[at - 1].isalpha():
        at -= 1
    return text[at:]


@dataclass(frozen=True)
class Beam:
    """How lines are read with a language: CTC's prefix beam in place of each column's most probable class.

    Args:
        width: texts that are followed at a time.
        texts: a file of texts, a line each, in which characters are counted behind the two before them; null for none.
        weight: of that count beside the picture.
        lexicon: a file of words, a line each; null for none.
        penalty: what a word that is not in the lexicon costs, as a log probability.
    """

    width: int = 10
    texts: str | None = None
    weight: float = 0.5
    lexicon: str | None = None
    penalty: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 1000 or self.weight < 0 or self.penalty < 0:
            raise AttributeValueError(
                f"beam: width is {self.width}, weight {self.weight}, penalty {self.penalty}; width lies between 1 and "
                "1000, the others are 0 or more"
            )

    def language(self, alphabet: Alphabet) -> Language:
        """The files' language; DataError for a file that is no text."""
        texts = [line for _, line in lines_of_file(self.texts)] if self.texts else []
        words = [line for _, line in lines_of_file(self.lexicon)] if self.lexicon else []
        counted = CharacterModel(texts, alphabet, self.weight)
        return Language(self, counted, Lexicon((word.strip() for word in words), self.penalty))


class Language:
    """A beam with what it read of its files, which metadata carry.

    Args:
        how: its numbers.
        characters: counted; empty without texts.
        lexicon: words; empty without a list.
    """

    def __init__(self, how: Beam, characters: CharacterModel, lexicon: Lexicon) -> None:
        self.how, self._characters, self._lexicon = how, characters, lexicon

    def metadata(self) -> dict[str, Any]:
        """All that makes it, but the alphabet."""
        numbers = {"width": self.how.width, "weight": self.how.weight, "penalty": self.how.penalty}
        return {**numbers, "counts": self._characters.counts, "words": sorted(self._lexicon.words)}

    @classmethod
    def made(cls, given: Mapping[str, Any], alphabet: Alphabet) -> Language:
        """What `metadata` gave."""
        how = Beam(given["width"], None, given["weight"], None, given["penalty"])
        characters = CharacterModel((), alphabet, how.weight)
        characters.counts = {text: dict(counts) for text, counts in given["counts"].items()}
        return cls(how, characters, Lexicon(given["words"], how.penalty))

    def __call__(self, text: str, character: str) -> float:
        """What both say of a character."""
        counted = self._characters(text, character) if self._characters.counts else 0.0
        return counted + (self._lexicon(text, character) if self._lexicon.words else 0.0)

    def ended(self, text: str) -> float:
        """What the lexicon says of an end."""
        return self._lexicon.ended(text) if self._lexicon.words else 0.0


def read_lines(outputs: Mapping[str, np.ndarray], alphabet: Alphabet, language: Language | None) -> list[Read]:
    """The texts of lines.

    Args:
        outputs: `characters` and `scores`, [N, T] each, see `greedy`; with a language `columns` [N, T, K] too.
        alphabet: the characters.
        language: what is known of the texts; None for the most probable class of each column.
    """
    if language is None:
        return greedy(outputs["characters"], outputs["scores"], alphabet)
    return [beam(row, alphabet, language.how.width, language) for row in outputs["columns"]]
