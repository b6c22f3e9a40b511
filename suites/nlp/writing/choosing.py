"""How hypotheses go on: beam search, and words drawn by chance.

Letters: B texts, N hypotheses of all texts, V words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from suites.nlp.writing.search import Hypothesis, Search


@dataclass(frozen=True)
class Live:
    """A hypothesis that goes on.

    Attributes:
        text: which text it is of.
        row: the hypothesis of the step before that it continues.
        ids: its words, those given with it.
        score: summed log-probability of the words that were chosen.
        number: which result of its text, where words are drawn.
        coverage: attention that each token of its source got from its words, float64 [S]; None where nobody asks.
    """

    text: int
    row: int
    ids: tuple[int, ...] = ()
    score: float = 0.0
    number: int = 0
    coverage: np.ndarray | None = None


class Chooser(ABC):
    """Takes the scores of the next words, and says which hypotheses go on with which word.

    Args:
        search: how.
        given: words of each text that are there before the first is chosen.
        seen: for each text the words that count as repeated besides those of a hypothesis.
        stop: the word that ends a text, besides those of `search.stop_ids`.
        rooms: words that each text has room for, those given with them.
        ends: whether words that are written end with a stop text, of a text's number and them, without those given.
    """

    def __init__(
        self,
        search: Search,
        given: Sequence[tuple[int, ...]],
        seen: Sequence[tuple[int, ...]],
        stop: int,
        rooms: Sequence[int],
        ends: Callable[[int, tuple[int, ...]], bool],
    ) -> None:
        self.search, self.seen, self.rooms, self.ends = search, seen, rooms, ends
        self.stops = {stop, *search.stop_ids}
        self.given = [len(ids) for ids in given]
        self.live = [Live(b, b, ids) for b, ids in enumerate(given)]
        self.done: list[list[Hypothesis]] = [[] for _ in given]
        self._attention: Sequence[np.ndarray] | None = None

    @abstractmethod
    def advance(self, scores: np.ndarray, totals: np.ndarray) -> None:
        """One step.  scores: float32 [N, V], log-probabilities; totals: [N], scores + totals are the logits."""

    def cover(self, attention: Sequence[np.ndarray]) -> None:
        """Take the attention to each token of the source, [S] of each hypothesis, that the next `advance` adds."""
        self._attention = attention

    def _covered(self, row: int) -> np.ndarray | None:
        """The coverage of a hypothesis with one word more."""
        if self._attention is None:
            return None
        own, before = np.asarray(self._attention[row], np.float64), self.live[row].coverage
        return own if before is None else before + own

    def results(self) -> list[list[Hypothesis]]:
        """The best of each text, best first."""
        return [sorted(done, key=lambda h: -h.score)[: self.search.results] for done in self.done]

    def _penalized(self, scores: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Scores with words that are there already made less likely; log-probabilities again."""
        if self.search.repetition_penalty == 1:
            return scores
        repeated = [(*self.seen[live.text], *live.ids) for live in self.live]
        return np.stack([
            penalized(row, float(total), ids, self.search.repetition_penalty)
            for row, total, ids in zip(scores, totals, repeated, strict=True)
        ])  # fmt: skip

    def _finish(
        self, live: Live, ids: tuple[int, ...], score: float, complete: bool, coverage: np.ndarray | None
    ) -> None:
        length = len(ids) - self.given[live.text] + 1
        total = score / self.search.penalty(length) + self.search.uncovered(coverage)
        self.done[live.text].append(Hypothesis(ids, total, complete))


class Beams(Chooser):
    """Beam search; a beam of 1 takes the likeliest word each time."""

    def advance(self, scores: np.ndarray, totals: np.ndarray) -> None:
        """See `Chooser.advance`; a text that is done takes no part in further steps."""
        scores = self._penalized(scores, totals)
        count = min(2 * self.search.beam, scores.shape[1])
        ids = np.argpartition(-scores, count - 1, axis=1)[:, :count] if count < scores.shape[1] else _every(scores)
        values = np.take_along_axis(scores, ids, axis=1).astype(np.float64)
        by_text: dict[int, list[int]] = {}
        for row, live in enumerate(self.live):
            by_text.setdefault(live.text, []).append(row)
        self.live = [live for rows in by_text.values() for live in self._of_text(rows, values[rows], ids[rows])]

    def _of_text(self, rows: list[int], values: np.ndarray, ids: np.ndarray) -> list[Live]:
        """What goes on of a text's hypotheses, which are `rows`."""
        own, beam = [self.live[row] for row in rows], self.search.beam
        last = len(own[0].ids) >= self.rooms[own[0].text]
        sums = np.array([live.score for live in own])[:, None] + values
        ranked = np.lexsort((ids.reshape(-1), -sums.reshape(-1)))[: 2 * beam].tolist()
        going: list[Live] = []
        for rank, place in enumerate(ranked):
            i, k = divmod(place, values.shape[1])
            live, word, score = own[i], int(ids[i, k]), float(sums[i, k])
            longer = (*live.ids, word)
            if word in self.stops or last or self.ends(live.text, longer[self.given[live.text] :]):
                if rank < beam:
                    stopped = word in self.stops
                    kept = live.ids if stopped or last else longer
                    if last and not stopped:
                        self._add(live, kept, live.score, False, live.coverage)
                    else:
                        self._add(live, kept, score, True, self._covered(rows[i]))
            elif len(going) < beam:
                going.append(Live(live.text, rows[i], longer, score, coverage=self._covered(rows[i])))
        if last:  # whose next word is not among the likeliest of all may have the best score without it
            for live in own:
                self._add(live, live.ids, live.score, False, live.coverage)
        return [] if not going or self._is_done(own[0].text, going) else going

    def _add(self, live: Live, ids: tuple[int, ...], score: float, complete: bool, coverage: np.ndarray | None) -> None:
        if all(ids != other.ids for other in self.done[live.text]):
            self._finish(live, ids, score, complete, coverage)

    def _is_done(self, text: int, going: list[Live]) -> bool:
        """Whether no hypothesis that goes on can still come among the best, were its whole source covered."""
        if len(self.done[text]) < self.search.beam:
            return False
        worst = sorted((h.score for h in self.done[text]), reverse=True)[self.search.beam - 1]
        longest = self.rooms[text] - self.given[text] + 1
        return going[0].score / self.search.penalty(longest) <= worst


class Drawing(Chooser):
    """Words drawn by chance, each result of a text by random numbers of its own."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        count = self.search.results
        self._draws = [[stream_of(self.search.seed, k) for k in range(count)] for _ in self.done]
        self._first = True

    def advance(self, scores: np.ndarray, totals: np.ndarray) -> None:
        """See `Chooser.advance`; the first step begins all results of a text."""
        logs = self._penalized(scores, totals)
        kept = [filtered(row, self.search) for row in logs]
        every = list(enumerate(self.live))
        if self._first:
            every = [(row, Live(live.text, row, live.ids, 0.0, k)) for row, live in every
                     for k in range(self.search.results)]  # fmt: skip
            self._first = False
        going = []
        for row, live in every:
            word = drawn(*kept[row], self._draws[live.text][live.number])
            longer, score, covered = (*live.ids, word), live.score + float(logs[row, word]), self._covered(row)
            if word in self.stops:
                self._finish(live, live.ids, score, True, covered)
            elif len(live.ids) >= self.rooms[live.text]:
                self._finish(live, live.ids, live.score, False, live.coverage)
            elif self.ends(live.text, longer[self.given[live.text] :]):
                self._finish(live, longer, score, True, covered)
            else:
                going.append(Live(live.text, row, longer, score, live.number, covered))
        self.live = going


def stream_of(seed: int, number: int) -> np.random.Generator:
    """The random numbers of a text's result `number`."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number])))


def expect_numbers(scores: np.ndarray) -> None:
    """Raise DataError for scores of next words that are no numbers."""
    if np.isnan(scores).any():
        raise DataError("the model gave no numbers (NaN) for the next word; its weights are damaged")


def penalized(scores: np.ndarray, total: float, repeated: Collection[int], by: float) -> np.ndarray:
    """Log-probabilities [V] with `repeated` words made less likely, float64; see `Search.repetition_penalty`."""
    logits, again = scores.astype(np.float64) + total, np.unique(np.array([*repeated], np.int64))
    old = logits[again]
    logits[again] = np.where(old > 0, old / by, old * by)
    return _log_softmax(logits)


def drawn(words: np.ndarray, chances: np.ndarray, random: np.random.Generator) -> int:
    """One of the words by its chance."""
    at = np.searchsorted(np.cumsum(chances), random.random(), side="right")
    return int(words[min(int(at), len(words) - 1)])


def filtered(logs: np.ndarray, search: Search) -> tuple[np.ndarray, np.ndarray]:
    """The words that may be drawn, likeliest first, and their probabilities, float64, which sum to 1.

    logs: [V], log-probabilities. They are divided by the temperature first, then cut by top_k, top_p and min_p.
    """
    order = _likeliest(logs, search.top_k)
    chances = np.exp(_log_softmax(logs[order].astype(np.float64) / search.temperature))
    keep = np.ones(len(order), bool)
    if search.top_p is not None:
        keep &= np.cumsum(chances) - chances < search.top_p
    if search.min_p is not None:
        keep &= chances >= search.min_p * chances[0]
    keep[0] = True
    return order[keep], chances[keep] / chances[keep].sum()


def _likeliest(logs: np.ndarray, count: int | None) -> np.ndarray:
    """The places of the largest numbers, largest first, of equal ones the first: `count` of them, None for all."""
    if count is None or count >= len(logs):
        return np.argsort(-logs, kind="stable")
    least = -np.partition(-logs, count - 1)[count - 1]
    above = np.flatnonzero(logs >= least)  # ties among them
    return above[np.argsort(-logs[above], kind="stable")][:count]


def _log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _every(scores: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
