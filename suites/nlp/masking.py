"""Masks of pretraining: single tokens, whole words or whole names are hidden (Devlin et al. 2019; Sun et al. 2019).

Letters: t tokens of a sequence, n spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.nlp.losses import IGNORED
from suites.nlp.tokenizers import Tokenizer

LEVELS = ("basic", "phrase", "entity")
_WORDS = 1 << 40  # above all numbers of names, so that a word is told from a name


@dataclass(frozen=True)
class Masks:
    """How much is hidden, and how.

    Args:
        share: of a sequence's tokens that are to be guessed.
        basic: weight of sequences in which single tokens are chosen.
        phrase: weight of those in which whole words are.
        entity: weight of those in which whole names are, and words where these are not enough.
        masked: share of the chosen spans that [MASK] stands for.
        random: share of those that random tokens stand for; the rest stays as it is.
    """

    share: float = 0.15
    basic: float = 1.0
    phrase: float = 1.0
    entity: float = 1.0
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or min(self.weights) < 0 or not sum(self.weights) > 0:
            raise AttributeValueError(
                f"Masks: share is {self.share} and the weights of {', '.join(LEVELS)} are {self.weights}; share must "
                "lie in (0, 1), the weights be 0 or more, one of them above 0"
            )
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise AttributeValueError(
                f"Masks: masked is {self.masked} and random {self.random}; both must be 0 or more, their sum at most 1"
            )

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of LEVELS."""
        return self.basic, self.phrase, self.entity


class Hidden(NamedTuple):
    """A sequence with hidden tokens.

    Attributes:
        ids: int64 [t], what the model sees.
        labels: int64 [t], the token that stood there where it is to be guessed, else IGNORED.
    """

    ids: np.ndarray
    labels: np.ndarray


class Masker:
    """Hides tokens.

    Args:
        masks: how much and how.
        tokenizer: has [MASK]; random tokens are of its vocabulary, but those in square brackets.
    """

    def __init__(self, masks: Masks, tokenizer: Tokenizer) -> None:
        if tokenizer.mask is None:
            raise DataError(
                f"Pretraining: {type(tokenizer).__name__} has no token [MASK] in its vocabulary; use BERT's or ERNIE's"
            )
        self._masks = masks
        self._mask = tokenizer.mask
        bracketed = [token.startswith("[") and token.endswith("]") and len(token) > 2 for token in tokenizer.vocabulary]
        self._ordinary = np.array(
            [i for i, token in enumerate(tokenizer.vocabulary) if token and not bracketed[i]], np.int64
        )

    def __call__(self, ids: np.ndarray, words: np.ndarray, names: np.ndarray, rng: np.random.Generator) -> Hidden:
        """ids: int64 [t]; words, names: int [t], what a token belongs to, -1 for none (special tokens: no word)."""
        weights = np.array(self._masks.weights)
        level = LEVELS[rng.choice(len(LEVELS), p=weights / weights.sum())]
        spans, named = _spans(level, words, names)
        order = rng.permutation(len(spans))
        if level == "entity":
            order = order[np.argsort(~named[order], kind="stable")]
        chosen = spans[order][: _count(spans[order], self._masks.share, rng)]
        return self._hide(ids, chosen, rng)

    def _hide(self, ids: np.ndarray, spans: np.ndarray, rng: np.random.Generator) -> Hidden:
        """Each of the spans [n, 2] becomes [MASK]s, random tokens, or stays."""
        seen, labels = ids.copy(), np.full(len(ids), IGNORED, np.int64)
        for (first, last), drawn in zip(spans.tolist(), rng.random(len(spans)).tolist(), strict=True):
            labels[first:last] = ids[first:last]
            if drawn < self._masks.masked:
                seen[first:last] = self._mask
            elif drawn < self._masks.masked + self._masks.random:
                seen[first:last] = self._ordinary[rng.integers(len(self._ordinary), size=last - first)]
        return Hidden(seen, labels)


def _spans(level: str, words: np.ndarray, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is hidden as a whole: spans int64 [n, 2], first token and one after the last; bool [n], which are names."""
    if level == "basic":
        places = np.flatnonzero(words >= 0)
        return np.stack([places, places + 1], axis=1), np.zeros(len(places), bool)
    units = np.where(words >= 0, words.astype(np.int64) + _WORDS, -1)
    if level == "entity":
        units = np.where(names >= 0, names, units)
    starts = np.flatnonzero(np.diff(units, prepend=-2))
    spans = np.stack([starts, np.append(starts[1:], len(units))], axis=1)
    spans = spans[units[starts] >= 0]
    return spans, units[spans[:, 0]] < _WORDS


def _count(spans: np.ndarray, share: float, rng: np.random.Generator) -> int:
    """How many of the spans, from the first on, are hidden.

    The one that crosses the bound is taken with the probability that makes the mean what was asked for, so that long
    spans are as likely as short ones; the first is always taken.
    """
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    if not len(ends):
        return 0
    wanted = max(1, round(share * int(ends[-1])))
    count = int(np.searchsorted(ends, wanted, side="right"))
    if count == 0:
        return 1
    left = wanted - int(ends[count - 1])
    more = count < len(ends) and rng.random() * int(ends[count] - ends[count - 1]) < left
    return count + int(more)


def tokens_in(spans: np.ndarray, numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What tokens belong to, by their first characters. spans: int64 [t, 2]; numbers: of the text's characters."""
    return [each[spans[:, 0]] for each in numbers]
