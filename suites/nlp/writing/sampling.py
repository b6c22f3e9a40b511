"""Sampler and BeamSearch: the next words of one text whose steps come one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError
from suites.nlp.writing.choosing import Beams, drawn, expect_numbers, filtered, penalized, stream_of
from suites.nlp.writing.search import Search
from suites.nlp.writing.stops import StopTexts


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
        expect_numbers(scores)
        if self._search.repetition_penalty != 1:
            scores = penalized(scores, total, self._seen, self._search.repetition_penalty)
        if self._search.temperature:
            word = drawn(*filtered(scores, self._search), self._random)
        else:
            word = int(np.argmax(scores))
        self._seen.add(word)
        return word


class BeamSearch:
    """How the hypotheses of one text go on; the same as a `Writer` with these scores.

    Args:
        search: how; its `stop` ends nothing, see `stops`.
        prompt: the words before, which count as repeated.
        stop: the word that ends a text, besides those of `search.stop_ids`.
        room: words at most.
        stops: texts that end one.
        before: words that the text stands behind, which have a part in its first space.
    """

    def __init__(
        self,
        search: Search,
        prompt: Sequence[int],
        stop: int,
        room: int,
        stops: StopTexts,
        before: Sequence[int] = (),
    ) -> None:
        ends = lambda text, ids: stops.ends(before, ids)  # noqa: E731
        self._beams = Beams(search, [()], [tuple(prompt)], stop, [room], ends)

    def advance(self, scores: np.ndarray, totals: np.ndarray) -> list[tuple[int, int]]:
        """Of each hypothesis that goes on the row, of the N before, that it continues, and its word; none at the end.

        Before the first call there is one, without words.  scores: [N, V] and totals: [N], see `Sampler.choose`.

        Raises DataError where the scores are no numbers.
        """
        expect_numbers(scores)
        self._beams.advance(scores, totals)
        return [(live.row, live.ids[-1]) for live in self._beams.live]

    def results(self) -> list[tuple[tuple[int, ...], bool]]:
        """The words of each result, best first, without one that ends it, and whether it ended by itself."""
        return [(found.ids, found.complete) for found in self._beams.results()[0]]
