"""Writer: the arrays of one step after the other, and what is written in the end.

A model that writes is asked by arrays alone, so a traced Program does as well as a model in Python: what it computed of
words before is kept here, a row a word, and given back with the places of the rows that each hypothesis sees.
Hypotheses of a text share the rows of their common beginning; nothing is copied when they part.

Letters: B texts, N hypotheses of all texts, T new words, P rows that are kept, W numbers of a row, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from suites.nlp.writing.choosing import Beams, Drawing, expect_numbers
from suites.nlp.writing.search import Hypothesis, Search
from suites.nlp.writing.stops import StopTexts

STEP = ("ids", "offsets", "places", "past", "order", "key_offsets", "rows")
SOURCE = ("source", "source_offsets", "memory", "memory_offsets", "groups")
_FIRST = 256  # rows that there is room for in the beginning


@dataclass(frozen=True)
class Limits:
    """What a writer has to know of a model.

    Attributes:
        start: the word before a text.
        stop: the word behind it.
        past: numbers of a row that is kept of a word.
        memory: numbers of a row that is kept of a source's word; 0 for a model that has no source.
        words: how many the vocabulary has, where the model has more rows, which are never written; None for all.
        length: words that the model has places for, `start` among them; None for any number.
    """

    start: int
    stop: int
    past: int
    memory: int = 0
    words: int | None = None
    length: int | None = None


@dataclass(frozen=True)
class Prompt:
    """What a text is written to.

    Attributes:
        given: words that it begins with, without start; they are a part of a translation, and none of what is written
            to a prompt.
        source: words of the source, of a model that has one.
        start: the word before it; None for that of the model.
    """

    given: tuple[int, ...] = ()
    source: np.ndarray | None = None
    start: int | None = None


class Writer:
    """Writes to a few prompts at once.

    `batch` gives the next step's arrays, or None at the end, and `take` takes what the model gave for them:

        ids int64 [T], offsets int64 [N + 1]: new words of each hypothesis; places int64 [T]: theirs in its text
        past float32 [P, W], order int64 [K], key_offsets int64 [N + 1]: rows of words before, see `nn.KeyRows`
        rows int64 [N]: words of `ids` whose next word is asked for
        source int64 [S], source_offsets int64 [B + 1]: the sources in the first step, later none
        memory float32 [M, W'], memory_offsets int64 [B + 1], groups int64 [B + 1]: what the first step gave for them

    and gives `scores` float32 [N, V], log-probabilities, `totals` [N], scores + totals are the logits, `fresh` [T, W],
    with sources `encoded` [S, W'], and for a coverage penalty `attention` [N, L], by place in the source.

    Args:
        prompts: B, at least one.
        limits: of the model.
        search: how words are chosen.
        continued: what words say behind others, for stop texts; see `Tokenizer.continued`.

    Raises DataError for a prompt that has no room.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        limits: Limits,
        search: Search,
        continued: Callable[[Sequence[int], Sequence[int]], str] | None = None,
    ) -> None:
        self._prompts, self._limits, self._search = prompts, limits, search
        rooms = [self._room(b, prompt) for b, prompt in enumerate(prompts)]
        kind = Drawing if search.temperature else Beams
        given = [prompt.given for prompt in prompts]
        self._starts = [limits.start if prompt.start is None else prompt.start for prompt in prompts]
        seen = [(start, *ids) for start, ids in zip(self._starts, given, strict=True)]
        self._stops = StopTexts(search.stop, continued)
        ends = lambda b, ids: self._stops.ends(seen[b], ids)  # noqa: E731
        self._chooser = kind(search, given, seen, limits.stop, rooms, ends)
        self._past = np.zeros((_FIRST, limits.past), np.float32)
        self._used = 0
        self._seen: list[np.ndarray] = [np.zeros(0, np.int64) for _ in prompts]  # rows of each hypothesis' words
        self._memory = np.zeros((0, limits.memory), np.float32)
        self._first = True

    def _room(self, b: int, prompt: Prompt) -> int:
        longest = self._limits.length
        used, most = len(prompt.given), len(prompt.given) + self._search.max_length
        if longest is None:
            return most
        if used + 1 >= longest:
            raise DataError(f"prompt {b} has {used} words; the model has places for {longest - 2} and one to follow")
        return min(most, longest - 1)

    def batch(self) -> dict[str, np.ndarray] | None:
        """The arrays of the next step."""
        live = self._chooser.live
        if not live:
            return None
        if self._first or not self._search.cached:
            new = [np.array([self._starts[h.text], *h.ids], np.int64) for h in live]
            self._seen = [np.zeros(0, np.int64) for _ in live]
        else:
            new = [np.array(h.ids[-1:], np.int64) for h in live]
        before = self._used if self._search.cached else 0
        offsets = np.cumsum([0, *map(len, new)], dtype=np.int64)
        rows = [np.concatenate([seen, before + np.arange(*offsets[i : i + 2])]) for i, seen in enumerate(self._seen)]
        self._rows = rows
        places = np.concatenate([np.arange(len(r) - len(n), len(r)) for r, n in zip(rows, new, strict=True)])
        arrays = {
            "ids": np.concatenate(new),
            "offsets": offsets,
            "places": places,
            "past": self._past[:before],
            "order": np.concatenate(rows),
            "key_offsets": np.cumsum([0, *map(len, rows)], dtype=np.int64),
            "rows": offsets[1:] - 1,
        }
        return arrays | (self._sources(offsets) if self._limits.memory else {})

    def _sources(self, offsets: np.ndarray) -> dict[str, np.ndarray]:
        sources = [prompt.source for prompt in self._prompts if prompt.source is not None]
        ends = np.cumsum([0, *map(len, sources)], dtype=np.int64)
        texts = np.array([h.text for h in self._chooser.live])
        return {
            "source": np.concatenate(sources) if self._first else np.zeros(0, np.int64),
            "source_offsets": ends if self._first else np.zeros(1, np.int64),
            "memory": self._memory,
            "memory_offsets": ends,
            "groups": offsets[np.searchsorted(texts, np.arange(len(sources) + 1))],
        }

    def take(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Take what the model gave for the last batch; DataError where it is no number."""
        scores = outputs["scores"][:, : self._limits.words]
        expect_numbers(scores)
        if self._search.cached:
            self._keep(outputs["fresh"])
        if self._first and self._limits.memory:
            self._memory = np.array(outputs["encoded"])
        self._first = False
        if self._search.coverage_penalty:
            self._chooser.cover(self._attention(outputs))
        self._chooser.advance(scores, outputs["totals"])
        self._seen = [self._rows[h.row] for h in self._chooser.live]
        self._drop()

    def _attention(self, outputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        if "attention" not in outputs:
            raise DataError(
                "search.coverage_penalty needs the model's attention, which this one does not give; export it again "
                "with the penalty set, or set it to 0"
            )
        ends = [0 if (source := prompt.source) is None else len(source) for prompt in self._prompts]
        return [row[: ends[h.text]] for row, h in zip(outputs["attention"], self._chooser.live, strict=True)]

    def _keep(self, fresh: np.ndarray) -> None:
        end = self._used + len(fresh)
        if end > len(self._past):
            grown = np.zeros((max(end, 2 * len(self._past)), self._past.shape[1]), np.float32)
            grown[: self._used] = self._past[: self._used]
            self._past = grown
        self._past[self._used : end] = fresh
        self._used = end

    def _drop(self) -> None:
        """Forget rows that no hypothesis sees, where they are most of them."""
        if not self._seen or self._used < _FIRST:
            return
        alive = np.unique(np.concatenate(self._seen))
        if 2 * len(alive) > self._used:
            return
        self._past[: len(alive)] = self._past[alive]
        self._used = len(alive)
        self._seen = [np.searchsorted(alive, rows) for rows in self._seen]

    @property
    def given(self) -> list[int]:
        """How many words each prompt begins with."""
        return [len(prompt.given) for prompt in self._prompts]

    @property
    def before(self) -> list[tuple[int, ...]]:
        """The words that each prompt begins with, and the one before them."""
        return [(start, *prompt.given) for start, prompt in zip(self._starts, self._prompts, strict=True)]

    @property
    def is_done(self) -> bool:
        """Whether all is written."""
        return not self._chooser.live

    def results(self) -> list[list[Hypothesis]]:
        """What was written to each prompt, best first, what was given with it."""
        return self._chooser.results()

    def cut(self, text: str) -> str:
        """A text up to the first stop text."""
        return self._stops.cut(text)


def steps(writer: Writer) -> Iterator[dict[str, np.ndarray]]:
    """The arrays of all steps; whoever asks for the next gives the writer what the model gave for the last."""
    while (arrays := writer.batch()) is not None:
        yield arrays
