"""BagOfWords: the sum of word vectors and a small network on it, the first of ERNIE Slim's students."""

from __future__ import annotations

from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel


@register("text_model")
class BagOfWords(TextModel):
    """Word vectors, their sum or mean, softsign, and two linear layers with tanh between.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K.
        width: D, of a word vector and of the hidden layer.
        pooling: "sum", or "mean", which is better for texts of very different length.
        dropout: share of the pooled vector's and the hidden layer's values set to 0 in training.
        word_dropout: share of the word vectors set to 0 in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        width: int = 128,
        pooling: Literal["sum", "mean"] = "sum",
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(vocab_size, num_classes, width) < 1:
            raise AttributeValueError(
                f"BagOfWords: vocab_size is {vocab_size}, num_classes {num_classes} and width {width}; "
                "all must be 1 or more"
            )
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, num_classes)
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = WordDropout(word_dropout)
        self._pool = ops.segment_sum if pooling == "sum" else ops.segment_mean

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """ids: [T], offsets: [B + 1]; logits [B, K]. The segments make no difference to a bag."""
        pooled = ops.softsign(self._pool(self.word_dropout(self.embedding(ids)), offsets))
        return self.head(self.dropout(ops.tanh(self.hidden(self.dropout(pooled)))))


class WordDropout(nn.Layer):
    """Sets whole rows to 0 in training, and scales the others up (Iyyer et al. 2015).

    Args:
        p: share of the rows.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self._drop = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [T, D]."""
        return x * self._drop(ops.full_like(x[:, :1], value=1.0))
