"""Greedy and beam search decoding of a Transformer, with a cache or without.

Letters: B sources, N hypotheses of all sources, W beam size, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.nlp.models.transformer import Encoded, Transformer


@dataclass(frozen=True)
class Hypothesis:
    """A decoded sequence.

    Attributes:
        ids: its words, without start and stop.
        score: sum of the words' log-probabilities (that of stop with them), over the length penalty.
        complete: whether it ended with stop, and not at the length allowed.
    """

    ids: tuple[int, ...]
    score: float
    complete: bool


class Stepper(Protocol):
    """Gives the logits of the next word of every hypothesis, a step at a time."""

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """Logits [N, V].

        Args:
            words: int64 [N], the last word of each hypothesis.
            parents: int64 [N], which hypothesis of the step before each one continues.
            groups: int64 [B + 1], where the hypotheses of each source begin and end.
        """


class CachedStepper:
    """Computes the new word's row alone: keys and values of the words before are kept, the source's made once."""

    def __init__(self, model: Transformer, encoded: Encoded) -> None:
        self._model, self._offsets = model, encoded.offsets
        self._caches: Sequence[nn.DecoderCache] = model.caches(encoded)
        self._place = 0
        self._count = 0

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """See Stepper."""
        if self._place and not np.array_equal(parents, np.arange(self._count)):
            order = framework.tensor(parents)
            self._caches = [cache.reordered(order) for cache in self._caches]
        logits, self._caches = self._model.step(
            framework.tensor(words), self._place, self._caches, framework.tensor(groups), self._offsets
        )
        self._place, self._count = self._place + 1, len(words)
        return logits


class PlainStepper:
    """Decodes all words of every hypothesis again in each step: what a cache saves, for comparison."""

    def __init__(self, model: Transformer, encoded: Encoded) -> None:
        self._model = model
        self._memory = encoded.memory
        self._offsets = encoded.offsets.numpy()
        self._words = np.zeros((0, 0), np.int64)

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """See Stepper."""
        before = self._words[parents] if self._words.size else np.zeros((len(words), 0), np.int64)
        self._words = np.concatenate([before, words[:, None]], axis=1)
        count, length = self._words.shape
        sources = np.repeat(np.arange(len(groups) - 1), np.diff(groups))
        lengths = np.diff(self._offsets)[sources]
        rows = np.concatenate([np.arange(self._offsets[s], self._offsets[s + 1]) for s in sources])
        memory = Encoded(
            ops.gather(self._memory, framework.tensor(rows)), framework.tensor(np.cumsum([0, *lengths.tolist()]))
        )
        offsets, last = np.arange(count + 1) * length, np.arange(1, count + 1) * length - 1
        words = self._words.reshape(-1)
        return self._model.decode(memory, framework.tensor(words), framework.tensor(offsets), framework.tensor(last))


@dataclass(frozen=True)
class Search:
    """How to decode.

    Args:
        beam: hypotheses kept of each source; 1 takes the likeliest word each time.
        max_length: words of a result at most, without stop.
        length_penalty: alpha of ((5 + length) / 6)^alpha, by which scores are divided (Wu et al. 2016); 0 for none.
        cached: keep keys and values between steps. The results are the same without.
    """

    beam: int = 1
    max_length: int = 128
    length_penalty: float = 0.6
    cached: bool = True

    def __post_init__(self) -> None:
        if min(self.beam, self.max_length) < 1 or self.length_penalty < 0:
            raise AttributeValueError(
                f"Search: beam is {self.beam}, max_length {self.max_length} and length_penalty {self.length_penalty}; "
                "they must be at least 1, 1 and 0"
            )

    def penalty(self, length: int) -> float:
        """What the score of `length` words, stop among them, is divided by."""
        return ((5 + length) / 6) ** self.length_penalty


def decode(
    model: Transformer, source: np.ndarray, offsets: np.ndarray, search: Search | None = None
) -> list[list[Hypothesis]]:
    """The best results of each source, best first: one with a beam of 1, else up to `beam`.

    Args:
        model: is put into evaluation mode while it decodes.
        source: int64 [S], the words of all sources.
        offsets: int64 [B + 1], where each begins and ends; none may be empty.
        search: how; greedily if left out.

    Raises:
        DataError: a source is empty, or longer than the model's places.
    """
    search = search or Search()
    _check(model, np.asarray(offsets), search)
    training = model.mode_now()
    model.eval()
    try:
        with framework.no_grad():
            encoded = model.encode(framework.tensor(source), framework.tensor(offsets))
            stepper = CachedStepper(model, encoded) if search.cached else PlainStepper(model, encoded)
            if search.beam == 1:
                return _greedy(model, stepper, len(offsets) - 1, search)
            return _Beams(model, stepper, len(offsets) - 1, search).run()
    finally:
        model.train(training)


def _check(model: Transformer, offsets: np.ndarray, search: Search) -> None:
    lengths = np.diff(offsets)
    if len(lengths) and not (lengths.min() >= 1 and lengths.max() <= model.max_length):
        b = int(np.argmax((lengths < 1) | (lengths > model.max_length)))
        raise DataError(f"decode: source {b} has {lengths[b]} words; it must have 1 ... {model.max_length}")
    if search.max_length + 1 > model.max_length:
        raise AttributeValueError(
            f"Search: max_length is {search.max_length} but the model has places for {model.max_length - 1} words"
        )


def _greedy(model: Transformer, step: Stepper, sources: int, search: Search) -> list[list[Hypothesis]]:
    found: list[list[int]] = [[] for _ in range(sources)]
    scores = np.zeros(sources)
    complete = np.zeros(sources, bool)
    alive, words, parents = np.arange(sources), np.full(sources, model.start), np.arange(sources)
    for _ in range(search.max_length + 1):
        if not len(alive):
            break
        groups = np.searchsorted(alive, np.arange(sources + 1))
        values, ids = _best_words(step(words, parents, groups), 1)
        words = ids[:, 0]
        stopped = words == model.stop
        going = ~stopped & (np.array([len(found[b]) for b in alive]) < search.max_length)
        complete[alive[stopped]] = True
        scores[alive] += np.where(stopped | going, values[:, 0], 0.0)
        for b, word in zip(alive[going].tolist(), words[going].tolist(), strict=True):
            found[b].append(word)
        alive, words, parents = alive[going], words[going], np.flatnonzero(going)
    return [
        [Hypothesis(tuple(ids), float(scores[b]) / search.penalty(len(ids) + 1), bool(complete[b]))]
        for b, ids in enumerate(found)
    ]


def _best_words(logits: Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities and ids [N, count] of the likeliest words, likeliest first."""
    values, ids = ops.topk(ops.log_softmax(logits), k=count)
    return values.numpy().astype(np.float64), ids.numpy()


@dataclass(frozen=True)
class _Live:
    """A hypothesis that goes on: its row in the last step, words and summed log-probability."""

    row: int
    ids: tuple[int, ...]
    score: float


class _Beams:
    """Beam search over all sources at once; a source that is done takes no part in further steps."""

    def __init__(self, model: Transformer, step: Stepper, sources: int, search: Search) -> None:
        self._model, self._step, self._search = model, step, search
        self._live: list[list[_Live]] = [[_Live(b, (), 0.0)] for b in range(sources)]
        self._done: list[list[Hypothesis]] = [[] for _ in range(sources)]

    def run(self) -> list[list[Hypothesis]]:
        """Step until all sources are done."""
        for _ in range(self._search.max_length + 1):
            rows = [live for own in self._live for live in own]
            if not rows:
                break
            groups = np.cumsum([0, *map(len, self._live)])
            words = np.array([live.ids[-1] if live.ids else self._model.start for live in rows])
            logits = self._step(words, np.array([live.row for live in rows]), groups)
            count = min(2 * self._search.beam, self._model.target_words)
            values, ids = _best_words(logits, count)
            for b, first in enumerate(groups[:-1].tolist()):
                self._advance(b, first, values, ids)
        return [sorted(done, key=lambda h: -h.score)[: self._search.beam] for done in self._done]

    def _advance(self, b: int, first: int, values: np.ndarray, ids: np.ndarray) -> None:
        """One step of source `b`, whose hypotheses begin at row `first`."""
        own, beam = self._live[b], self._search.beam
        if not own:
            return
        last = len(own[0].ids) == self._search.max_length
        scores = np.array([live.score for live in own])[:, None] + values[first : first + len(own)]
        order = np.argsort(-scores.reshape(-1), kind="stable")[: 2 * beam].tolist()
        going: list[_Live] = []
        for rank, place in enumerate(order):
            i, k = divmod(place, values.shape[1])
            word, score = int(ids[first + i, k]), float(scores[i, k])
            if word == self._model.stop:
                if rank < beam:
                    self._finish(b, own[i].ids, score, True)
            elif last:
                if rank < beam:
                    self._finish(b, own[i].ids, own[i].score, False)
            elif len(going) < beam:
                going.append(_Live(first + i, (*own[i].ids, word), score))
        self._live[b] = [] if last or self._is_done(b, going) else going

    def _finish(self, b: int, ids: tuple[int, ...], score: float, complete: bool) -> None:
        found = Hypothesis(ids, score / self._search.penalty(len(ids) + 1), complete)
        if all(found.ids != other.ids for other in self._done[b]):
            self._done[b].append(found)

    def _is_done(self, b: int, going: list[_Live]) -> bool:
        """Whether no hypothesis that goes on can still come among the best."""
        if not going:
            return True
        if len(self._done[b]) < self._search.beam:
            return False
        worst = sorted((h.score for h in self._done[b]), reverse=True)[self._search.beam - 1]
        return going[0].score / self._search.penalty(self._search.max_length + 1) <= worst
