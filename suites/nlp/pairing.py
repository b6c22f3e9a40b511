"""Documents as pairs of texts to pretrain on: cut to what a model takes, split in two and hidden anew in each epoch.

Letters: t tokens of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from framework.data.streams import sample_rng
from framework.errors import ConfigError, DataError
from suites.nlp.datasets import Document
from suites.nlp.losses import IGNORED
from suites.nlp.masking import Masker, tokens_in
from suites.nlp.sequences import Encoded, Sequencer

Relation = Literal["next", "order", "none"]


class Piece(NamedTuple):
    """Tokens of a text: ids, and the words and names they belong to (-1 for none), int64 [t] each."""

    ids: np.ndarray
    words: np.ndarray
    names: np.ndarray

    def cut(self, first: int, last: int) -> Piece:
        """Tokens `first` to `last` - 1."""
        return Piece(*(values[first:last] for values in self))


class Passages(Encoded):
    """Runs of sentences that follow each other, as long as fits a sequence; an epoch draws pairs and masks from them.

    `passages[i]` is drawn with numbers of its own that do not change, for evaluation; `sample(i, rng)` with `rng`.

    Args:
        documents: the texts.
        sequencer: texts to tokens.
        masker: hides tokens.
        relation: what the second text is to the first: "next" follows it, or is of another document; "order" follows
            it, or comes before it; with "none" there is but one text.
        name_of: file and line of a document, for messages.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        sequencer: Sequencer,
        masker: Masker,
        relation: Relation,
        name_of: Callable[[int], str],
    ) -> None:
        self._relation = relation
        self._masker = masker
        self._sequencer = Sequencer(sequencer.tokenizer, (), sequencer.max_length)
        self._pair = relation != "none"
        room = sequencer.room(self._pair)
        samples, names = [], []
        for number, pieces in enumerate(_pieces(documents, sequencer, room)):
            for passage in _passages(pieces, room):
                samples.append({**passage, "document": np.int64(number)})
                names.append(name_of(number))
        if not samples:
            raise DataError(f"{name_of(0)}: no document has a token; the text is empty for this tokenizer")
        super().__init__(samples, ("ids", "words", "names", "sentence"), names.__getitem__)
        owners = self._rows["document"]
        self._first, self._last = (np.searchsorted(owners, owners, side=side) for side in ("left", "right"))
        self._check_pairs(name_of(0))

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence at most, int64 [N]."""
        added = self._sequencer.max_length - self._sequencer.room(self._pair)
        return super().lengths + added

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The sequence of a passage, drawn with its own numbers."""
        return self.sample(index, sample_rng(0, 0, index))

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """`ids`, `segment_ids` and `labels` [t]; `related` 0 if the second text fits, 1 if not, IGNORED without one."""
        first, second, related = self._texts(index, rng)
        sequence = self._sequencer.join(first.ids, None if second is None else second.ids)
        words, names = np.full((2, len(sequence.ids)), -1, np.int64)
        places = [(sequence.first, first)] + ([] if second is None else [(sequence.second, second)])
        for begin, text in places:
            words[begin : begin + len(text.ids)] = text.words
            names[begin : begin + len(text.ids)] = text.names
        hidden = self._masker(sequence.ids, words, names, rng)
        return {
            "ids": hidden.ids,
            "segment_ids": sequence.segment_ids,
            "labels": hidden.labels,
            "related": np.int64(related),
            "name": self.name_of(index),
        }

    def _texts(self, index: int, rng: np.random.Generator) -> tuple[Piece, Piece | None, int]:
        passage, starts = self._passage(index)
        if not self._pair or len(starts) == 1:
            return passage, None, IGNORED
        middle = int(starts[rng.integers(1, len(starts))])
        first, second = passage.cut(0, middle), passage.cut(middle, len(passage.ids))
        if rng.random() < 0.5:
            return first, second, 0
        if self._relation == "order":
            return second, first, 1
        return first, self._elsewhere(index, len(second.ids), rng), 1

    def _elsewhere(self, index: int, room: int, rng: np.random.Generator) -> Piece:
        """Whole sentences of another document in `room` tokens; the start of one where none fits."""
        first, last = int(self._first[index]), int(self._last[index])
        other = int(rng.integers(len(self) - (last - first)))
        passage, starts = self._passage(other if other < first else other + last - first)
        ends = np.append(starts[1:], len(passage.ids))
        fitting = np.flatnonzero(ends - starts <= room)
        begin = int(starts[rng.choice(fitting) if len(fitting) else rng.integers(len(starts))])
        whole = ends[(ends > begin) & (ends - begin <= room)]
        return passage.cut(begin, int(whole[-1]) if len(whole) else begin + room)

    def _passage(self, index: int) -> tuple[Piece, np.ndarray]:
        """The tokens of a passage, and where its sentences begin."""
        own = super().__getitem__(index)
        starts = np.flatnonzero(np.diff(own["sentence"], prepend=-1))
        return Piece(own["ids"], own["words"], own["names"]), starts

    def _check_pairs(self, where: str) -> None:
        if not self._pair:
            return
        if not any(len(self._passage(i)[1]) > 1 for i in range(len(self))):
            raise ConfigError(
                f"{where}: no document has two sentences that fit into a sequence, so there are no pairs; put an empty "
                "line between documents alone, raise data.max_length, or set problem.sentences to none"
            )
        if self._relation == "next" and int(self._first[-1]) == 0:
            raise ConfigError(
                f"{where}: there is one document, so none to take a sentence from that does not follow; put empty "
                "lines between documents, or set problem.sentences to order or none"
            )


class Drawn:
    """What training draws from `passages`, anew in each epoch."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    def __len__(self) -> int:
        return len(self._passages)

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """See `Passages.sample`."""
        return self._passages.sample(index, rng)

    def name_of(self, index: int) -> str:
        """File and line of a sample."""
        return self._passages.name_of(index)


def _pieces(documents: Sequence[Document], sequencer: Sequencer, room: int) -> Iterator[list[Piece]]:
    """The sentences of each document that have tokens; one longer than `room` as several."""
    tokens = iter(sequencer.tokens(sentence.text for document in documents for sentence in document.sentences))
    for document in documents:
        pieces = []
        for sentence in document.sentences:
            found = next(tokens)
            ids = found.ids
            words, names = tokens_in(found.spans, (sentence.words, sentence.names)) if len(ids) else (ids, ids)
            whole = Piece(ids, words.astype(np.int64), names.astype(np.int64))
            pieces += [whole.cut(first, first + room) for first in range(0, len(ids), room)]
        yield pieces


def _passages(pieces: Sequence[Piece], room: int) -> Iterator[Mapping[str, np.ndarray]]:
    """Runs of pieces that fit into `room` tokens, as arrays; words are numbered through."""
    run: list[Piece] = []
    for piece in pieces:
        if run and sum(len(p.ids) for p in run) + len(piece.ids) > room:
            yield _joined(run)
            run = []
        run.append(piece)
    if run:
        yield _joined(run)


def _joined(run: Sequence[Piece]) -> Mapping[str, np.ndarray]:
    shifts = np.cumsum([0, *(max(int(p.words.max()), int(p.names.max())) + 1 for p in run[:-1])])
    return {
        "ids": np.concatenate([p.ids for p in run]),
        "words": np.concatenate([np.where(p.words >= 0, p.words + s, -1) for p, s in zip(run, shifts, strict=True)]),
        "names": np.concatenate([np.where(p.names >= 0, p.names + s, -1) for p, s in zip(run, shifts, strict=True)]),
        "sentence": np.concatenate([np.full(len(p.ids), i, np.int64) for i, p in enumerate(run)]),
    }
