"""Texts made of the training texts, about ten for each, for a teacher to label (ERNIE Slim; Tang et al. 2019).

Three changes: a word becomes one that no vocabulary has, a word becomes another one, only a run of words stays. The
published recipe swaps words of the same part of speech. That takes a tagger for each language; here a word is swapped
for one that stands after the same word in the training texts, as often as it does there: what fits behind "very".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from suites.nlp.datasets import Labelled
from suites.nlp.slim.settings import Augment
from suites.nlp.tokenizers.words import Piece, cutter

UNKNOWN_WORD = "\u2370"  # a visible character (a question mark in a box) that no vocabulary holds


class Augmenter:
    """Makes texts like those it was given.

    Args:
        settings: how many, and by which changes.
        texts: the training texts, from which words are taken.
    """

    def __init__(self, settings: Augment, texts: Iterable[str]) -> None:
        self._settings = settings
        self._cut = cutter(settings.pieces)
        self._followers: dict[str, list[str]] = defaultdict(list)
        for text in texts:
            before = ""
            for word, _, _ in self._cut(text):
                self._followers[before].append(word)
                before = word

    def examples(self, examples: Sequence[Labelled]) -> list[Labelled]:
        """`times` new examples of each, without label; the same for the same seed, whatever else is done."""
        times = self._settings.times
        made = []
        for number, example in enumerate(examples):
            rng = np.random.default_rng([self._settings.seed, number])
            made += [self._changed(example, rng) for _ in range(times)]
        return made

    def text(self, text: str, rng: np.random.Generator) -> str:
        """A text made of `text`; one without words stays as it is."""
        pieces = self._cut(text)
        if not pieces:
            return text
        words = self._words(pieces, rng)
        first, last = self._run(len(pieces), rng)
        gaps = [text[a[2] : b[1]] for a, b in zip(pieces[first:last], pieces[first + 1 : last], strict=False)]
        return "".join(word + gap for word, gap in zip(words[first:last], [*gaps, ""], strict=True))

    def _changed(self, example: Labelled, rng: np.random.Generator) -> Labelled:
        pair = None if example.pair is None else self.text(example.pair, rng)
        return replace(example, text=self.text(example.text, rng), pair=pair, label="", group="")

    def _words(self, pieces: Sequence[Piece], rng: np.random.Generator) -> list[str]:
        """The words, some unknown, some swapped."""
        drawn = rng.random(len(pieces))
        s, before, words = self._settings, "", []
        for (word, _, _), chance in zip(pieces, drawn, strict=True):
            if chance < s.unknown:
                words.append(UNKNOWN_WORD)
            elif chance < s.unknown + s.swap and (choices := self._followers.get(before)):
                words.append(choices[rng.integers(len(choices))])
            else:
                words.append(word)
            before = word
        return words

    def _run(self, count: int, rng: np.random.Generator) -> tuple[int, int]:
        """First word kept and the one after the last: mostly all, else any run of words."""
        if rng.random() >= self._settings.span:
            return 0, count
        length = int(rng.integers(1, count + 1))
        first = int(rng.integers(0, count - length + 1))
        return first, first + length
