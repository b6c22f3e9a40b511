"""Sampler: the next words of one text whose steps come one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.nlp.writing.choosing import drawn, filtered, penalized, stream_of
from suites.nlp.writing.search import Search


class Sampler:
    """Chooses words as `Search` says, by random numbers of its own; the same as a `Writer` with these scores.

    Args:
        search: how; without beams.
        number: which result of the prompt.
        prompt: its words, which count as repeated.

    Raises AttributeValueError for a search with beams.
    """

    def __init__(self, search: Search, number: int, prompt: Sequence[int]) -> None:
        if search.beam != 1:
            raise AttributeValueError(f"Sampler: beam is {search.beam}; one word is chosen at a time, without beams")
        self._search, self._random, self._seen = search, stream_of(search.seed, number), set(prompt)

    def choose(self, scores: np.ndarray, total: float) -> int:
        """The next word.  scores: log-probabilities [V]; scores + total are the logits.

        Raises DataError where the scores are no numbers.
        """
        if np.isnan(scores).any():
            raise DataError("the model gave no numbers (NaN) for the next word; its weights are damaged")
        if self._search.repetition_penalty != 1:
            scores = penalized(scores, total, self._seen, self._search.repetition_penalty)
        if self._search.temperature:
            word = drawn(*filtered(scores, self._search), self._random)
        else:
            word = int(np.argmax(scores))
        self._seen.add(word)
        return word
