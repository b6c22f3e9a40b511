"""RecurrentClassifier: an LSTM or GRU over the text, in one or both directions, and its rows pooled."""

from __future__ import annotations

from typing import Any, Literal

from framework import nn, ops
from framework.errors import AttributeValueError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout
from suites.nlp.models.words import WordVectors

Cell = Literal["lstm", "gru"]
Pooling = Literal["max", "mean", "last"]


class RecurrentEncoder(nn.Layer):
    """Word vectors, dropout, and an LSTM or GRU over them.

    Args:
        vocab_size: tokens.
        width: of a word vector.
        cell: "lstm" or "gru".
        hidden: units in each direction.
        layers: one on the other.
        bidirectional: both directions, or forward alone.
        dropout: share of the inputs of each layer that is 0 in training.
        word_dropout: share of the words whose vectors are 0 in training.
        pairs: rows of a hashed table of neighbouring pairs; 0 for none.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        cell: Cell,
        hidden: int,
        layers: int,
        bidirectional: bool,
        dropout: float,
        word_dropout: float,
        pairs: int,
    ) -> None:
        super().__init__()
        if min(vocab_size, width, hidden, layers) < 1 or pairs < 0:
            raise AttributeValueError(
                f"recurrent model: vocab_size is {vocab_size}, width {width}, hidden {hidden}, layers {layers} and "
                f"pairs {pairs}; all must be 1 or more, pairs 0 or more"
            )
        self.embedding = WordVectors(vocab_size, width, pairs)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.cells = kind(self.embedding.out_features, hidden, layers, bidirectional, dropout)
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = WordDropout(word_dropout)
        self.out_features = self.cells.out_features

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """ids: int64 [T], offsets: int64 [B + 1]; result [T, out_features]."""
        x = self.dropout(self.word_dropout(self.embedding(ids, offsets)))
        return self.cells(x, offsets)[0]


def turned_rows(offsets: Tensor, like: Tensor) -> Tensor:
    """Of each row the number of the one that is as far from its sequence's other end, int64 [T].

    offsets: integer [B + 1]; like: [T, ...], read for T only.
    """
    return ops.gather(offsets[1:] - 1, ops.ragged_segments(offsets, like)) - ops.ragged_positions(offsets, like)


def pooled(x: Tensor, offsets: Tensor, pooling: Pooling | Literal["cls"]) -> Tensor:
    """x: [T, D] to [B, D]: the largest value of each sequence, the mean, the last row, or the first one ("cls")."""
    if pooling in ("last", "cls"):
        return ops.gather(x, offsets[1:] - 1 if pooling == "last" else offsets[:-1])
    return ops.segment_max(x, offsets)[0] if pooling == "max" else ops.segment_mean(x, offsets)


@register("text_model")
class RecurrentClassifier(TextModel):
    """Word vectors, an LSTM or GRU, its rows pooled, and a linear layer.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K.
        width: of a word vector.
        cell: "lstm" or "gru".
        hidden: units in each direction.
        layers: one on the other.
        bidirectional: both directions, or forward alone.
        pooling: the largest value over the text ("max"), the "mean", or the "last" row, which of both directions only
            the forward one has read to its end.
        dropout: share of the word vectors' values, of the values between layers and of the pooled ones that is 0 in
            training.
        word_dropout: share of the words whose vectors are 0 in training.
        pairs: rows of a hashed table of vectors for neighbouring pairs of words; 0 for none.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        width: int = 128,
        cell: Cell = "lstm",
        hidden: int = 128,
        layers: int = 1,
        bidirectional: bool = True,
        pooling: Pooling = "max",
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        pairs: int = 0,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise AttributeValueError(f"RecurrentClassifier: num_classes is {num_classes}; it must be 1 or more")
        self.vocab_size = vocab_size
        self.encoder = RecurrentEncoder(
            vocab_size, width, cell, hidden, layers, bidirectional, dropout, word_dropout, pairs
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(self.encoder.out_features, num_classes)
        self._pooling = pooling

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """ids: [T], offsets: [B + 1]; logits [B, K]. The segments make no difference."""
        return self.head(self.dropout(pooled(self.encoder(ids, offsets), offsets, self._pooling)))

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """The rows of the last cells, [T, D]; there is no choice of layers."""
        if layer is not None:
            raise NotSupportedError("RecurrentClassifier: gives no vectors of layers; a Bert does")
        return self.encoder(ids, offsets)
