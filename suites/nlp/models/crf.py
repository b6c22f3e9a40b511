"""CrfTagger: BiGRU-CRF and BiLSTM-CRF for lexical analysis and named entities (Huang et al. 2015; Jiao et al. 2018).

Letters: T tokens, B sequences, K tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import framework
from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.recurrent import Cell, RecurrentEncoder


class ChainScores(NamedTuple):
    """What a tagger with a conditional random field gives: all that its loss and its best path are made of.

    Attributes:
        emissions: [T, K].
        transitions: [K, K], from tag i to tag j.
        start: [K].
        stop: [K].
        offsets: int64 [B + 1].
    """

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    stop: Tensor
    offsets: Tensor


@register("text_model")
class CrfTagger(TextModel):
    """Word vectors, a GRU or LSTM in both directions, a linear layer to tags, and a conditional random field.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K.
        width: of a word vector.
        cell: "gru" or "lstm".
        hidden: units in each direction.
        layers: one on the other.
        dropout: share of the word vectors' values, of the values between layers and of the last ones that is 0 in
            training.
        word_dropout: share of the words whose vectors are 0 in training.
        pairs: rows of a hashed table of vectors for neighbouring pairs of words; 0 for none.
        tags: names of the tags in the model's order; with them, decoding takes only sequences that their prefixes
            (BIO, BMES, BIOES) allow. Null allows all.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        width: int = 128,
        cell: Cell = "gru",
        hidden: int = 128,
        layers: int = 1,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        pairs: int = 0,
        tags: list[str] | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1 or (tags is not None and len(tags) != num_classes):
            named = "" if tags is None else f" but tags names {len(tags)}"
            raise AttributeValueError(f"CrfTagger: num_classes is {num_classes}{named}; give one name a class")
        self.vocab_size = vocab_size
        self.encoder = RecurrentEncoder(vocab_size, width, cell, hidden, layers, True, dropout, word_dropout, pairs)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(self.encoder.out_features, num_classes)
        self.crf = nn.CRF(num_classes)
        self._forbidden = None if tags is None else [framework.tensor(x) for x in forbidden_transitions(tags)]

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor | None = None) -> ChainScores:
        """ids: [T], offsets: [B + 1]; in evaluation mode the scores of what the tags' prefixes forbid are -infinity."""
        emissions = self.head(self.dropout(self.encoder(ids, offsets)))
        scores = [self.crf.transitions, self.crf.start, self.crf.stop]
        if self._forbidden is not None and not self.training:
            scores = [score + extra for score, extra in zip(scores, self._forbidden, strict=True)]
        transitions, start, stop = scores
        return ChainScores(emissions, transitions, start, stop, offsets)


def forbidden_transitions(tags: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What tags may not follow each other, begin or end a sequence: -infinity there, 0 elsewhere.

    M, I and E go on with a chunk of their type that B, M or I began; after B and M of a scheme with E (BMES, BIOES) the
    chunk must go on. Without E (BIO), B and I may end a chunk.

    Returns:
        transitions [K, K], start [K], stop [K], float32.
    """
    split = [(tag, "") if tag == "O" else tuple(tag.split("-", 1)) for tag in tags]
    if any(len(parts) != 2 or parts[0] not in "OBIMES" for parts in split):
        raise AttributeValueError(
            f"CrfTagger: tags are {', '.join(tags)}; each must be O, or B-, I-, M-, E- or S- and a type"
        )
    closes = any(prefix == "E" for prefix, _ in split)

    def opens(part: tuple[str, ...]) -> bool:
        return part[0] in "BMI"

    def goes_on(part: tuple[str, ...]) -> bool:
        return part[0] in "MIE"

    def allowed(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
        if goes_on(b):
            return opens(a) and a[1] == b[1]
        return not (closes and opens(a))

    def scores(allow: Sequence[bool]) -> np.ndarray:
        return np.where(np.array(allow), 0.0, -np.inf).astype(np.float32)

    transitions = scores([allowed(a, b) for a in split for b in split]).reshape(len(tags), len(tags))
    return transitions, scores([not goes_on(b) for b in split]), scores([not (closes and opens(a)) for a in split])
