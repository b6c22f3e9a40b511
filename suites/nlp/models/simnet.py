"""SimNet: how well two texts match, each read by the same small network (Baidu's SimNet; Shen et al. 2014).

Letters: T tokens, B pairs, K classes, D width of a text's vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout
from suites.nlp.models.cnn import RaggedConvolution


class _Reader(nn.Layer):
    """Word vectors [T, width] to a vector for each text [B, out_features]."""

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features


class _Bag(_Reader):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        return ops.softsign(ops.segment_sum(x, offsets))


class _Convolution(_Reader):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(hidden)
        self.conv = RaggedConvolution(width, hidden, 3)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        return ops.segment_max(ops.relu(self.conv(x, offsets)), offsets)[0]


class _Recurrent(_Reader):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(hidden)
        self.gru = nn.GRU(width, hidden)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        return ops.squeeze(self.gru(x, offsets)[1], axis=0)


class _Memory(_Reader):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(hidden)
        self.lstm = nn.LSTM(width, hidden)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        return ops.gather(self.lstm(x, offsets)[0], offsets[1:] - 1)


_READERS: dict[str, Callable[[int, int], _Reader]] = {
    "bow": _Bag,
    "cnn": _Convolution,
    "gru": _Recurrent,
    "lstm": _Memory,
}


@register("text_model")
class SimNet(TextModel):
    """Two texts to vectors by one network, then classes of the pair (pointwise), or their cosine (pairwise).

    A pair is one sequence whose second text has segment 1; neither text may be empty of tokens.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K, such as match or not; 1 with `score: cosine`.
        reader: "bow" sums word vectors, "cnn" takes the largest of convolutions over 3 words, "gru" and "lstm" the
            last state.
        width: of a word vector.
        hidden: D of "cnn", "gru" and "lstm", and the width of the layer on it.
        score: "classes" for logits from both vectors, their difference and product; "cosine" for the cosine, which
            `hinge_loss` trains, or a squared error against numbers.
        dropout: share of the texts' vectors that is 0 in training.
        word_dropout: share of the words whose vectors are 0 in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        reader: Literal["bow", "cnn", "gru", "lstm"] = "bow",
        width: int = 128,
        hidden: int = 128,
        score: Literal["classes", "cosine"] = "classes",
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(vocab_size, num_classes, width, hidden) < 1 or (score == "cosine" and num_classes != 1):
            raise AttributeValueError(
                f"SimNet: vocab_size is {vocab_size}, num_classes {num_classes}, width {width} and hidden {hidden}; "
                "all must be 1 or more, and num_classes 1 with score: cosine"
            )
        self.vocab_size, self.num_classes = vocab_size, num_classes
        self.embedding = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.word_dropout = WordDropout(word_dropout)
        self.reader = _READERS[reader](width, hidden)
        self.hidden = nn.Linear(self.reader.out_features, hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4 * hidden, num_classes) if score == "classes" else None

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor) -> Tensor:
        """ids, segment_ids: [T], offsets: [B + 1]; logits [B, K], or cosines [B, 1]."""
        first, second = self.vectors(ids, offsets, segment_ids)
        if self.head is None:
            return ops.expand_dims(cosine(first, second), axis=1)
        parts = [first, second, ops.abs(first - second), first * second]
        return self.head(self.dropout(ops.concat(parts, axis=1)))

    def vectors(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors of the first and of the second texts, [B, hidden] each."""
        halves = split_pairs(offsets, segment_ids)
        x = self.word_dropout(self.embedding(ids))
        read = ops.tanh(self.hidden(self.dropout(self.reader(x, halves))))  # [2 B, hidden], text by text
        first, second = ops.split(ops.reshape(read, shape=(-1, 2, self.hidden.out_features)), axis=1, sizes=[1, 1])
        return ops.squeeze(first, axis=1), ops.squeeze(second, axis=1)


def split_pairs(offsets: Tensor, segment_ids: Tensor) -> Tensor:
    """Offsets [2 B + 1] of single texts, from those [B + 1] of pairs whose second texts have segment 1."""
    seconds = ops.segment_sum(ops.cast(segment_ids, dtype="float64"), offsets)  # exact: counts below 2^53
    middles = offsets[1:] - ops.cast(seconds, dtype="int64")
    starts = ops.concat([ops.expand_dims(x, axis=1) for x in (offsets[:-1], middles)], axis=1)
    return ops.concat([ops.flatten(starts, start=0, end=1), offsets[-1:]], axis=0)


def cosine(a: Tensor, b: Tensor, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between rows.  a, b: [B, D]; result [B]; 0 where a row is shorter than `eps`."""

    def product(x: Tensor, y: Tensor) -> Tensor:
        return ops.sum(x * y, axes=[-1])

    lengths = ops.sqrt(ops.maximum(product(a, a) * product(b, b), eps**2))
    return product(a, b) / lengths


def hinge_loss(right: Tensor, wrong: Tensor, margin: float = 0.1) -> Tensor:
    """Mean of max(0, margin - right + wrong): pairs that match should score above those that do not, by `margin`.

    right, wrong: scores of the same shape, such as cosines of a query with a text that fits and one that does not.
    """
    return ops.mean(ops.relu(wrong - right + margin))
