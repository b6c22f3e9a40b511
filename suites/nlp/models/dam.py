"""DeepAttentionMatching: a query and an answer, matched word by word at several depths of attention (DAM).

Zhou et al. 2018, "Multi-Turn Response Selection for Chatbots with Deep Attention Matching Network", section 3. Letters:
B pairs, U turns of a conversation, P words of a text, D width of a word vector, L layers, C channels.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout
from suites.nlp.models.simnet import split_pairs
from suites.nlp.tokenizers import Tokenizer

_FAR = 1e9  # stands for infinity among scores


class AttentiveModule(nn.Layer):
    """Rows that look at others, and a network of two layers, each with a sum and a norm behind (equations 1 to 3).

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.last_norm = nn.LayerNorm(width)

    def forward(self, query: Tensor, seen: Tensor, there: Tensor) -> Tensor:
        """query, seen: [B, P, D]; there: bool [B, P], which rows of `seen` are words; result [B, P, D]."""
        scores = ops.matmul(query, seen, transpose_b=True) * self.width**-0.5
        shares = ops.softmax(ops.where(ops.expand_dims(there, axis=1), scores, -_FAR), axis=-1)
        x = self.norm(query + ops.matmul(shares, seen))
        return self.last_norm(x + self.second(ops.relu(self.first(x))))


@register("text_model")
class DeepAttentionMatching(TextModel):
    """One number a pair: how well the second text answers the first.

    L layers of attention of each text on itself, and L + 1 of each on the other, give matrices of products of words;
    these are the channels of a picture for two convolutions with pooling. With `turns` above 1 the first text is a
    conversation: each of its turns is matched with the answer by itself, and the convolutions are over turns too, as in
    the paper (section 3.4).

    Args:
        vocab_size: rows of the embedding.
        num_classes: 1.
        words: P, of each text; the words behind them are not read.
        width: D.
        layers: L; 5 in the paper.
        channels: C of both convolutions.
        dropout: share of the word vectors' values that is 0 in training.
        word_dropout: share of the words whose vectors are 0 in training.
        turns: U, of the conversation; those behind are not read. `Dialogues` has an option of this name.
        between: the word that stands between turns, as of `Dialogues`; it must be one token of the vocabulary.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int = 1,
        words: int = 50,
        width: int = 200,
        layers: int = 5,
        channels: tuple[int, int] = (32, 16),
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        turns: int = 1,
        between: str = "__eot__",
    ) -> None:
        super().__init__()
        if turns < 1 or 1 < turns < 9:
            raise AttributeValueError(
                f"DeepAttentionMatching: turns is {turns}; it must be 1, or 9 or more for two poolings of 3"
            )
        if num_classes != 1 or words < 9 or min(vocab_size, width, layers, *channels) < 1:
            raise AttributeValueError(
                f"DeepAttentionMatching: num_classes is {num_classes}, words {words}, vocab_size {vocab_size}, width "
                f"{width}, layers {layers} and channels {list(channels)}; num_classes must be 1, words 9 or more, all "
                "others 1 or more"
            )
        self.vocab_size, self.num_classes, self.words, self.width = vocab_size, num_classes, words, width
        self.embedding = nn.Embedding(vocab_size, width, initializer=init.Normal(width**-0.5))
        self.dropout, self.word_dropout = nn.Dropout(dropout), WordDropout(word_dropout)
        self.own = nn.LayerList([AttentiveModule(width) for _ in range(layers)])
        self.other = nn.LayerList([AttentiveModule(width) for _ in range(layers + 1)])
        self.turns, self._between, self._separator = turns, between, -1
        side, deep = words // 3 // 3, turns // 3 // 3 if turns > 1 else 1
        if turns > 1:
            self.conv1: nn.Layer = nn.Conv3d(2 * (layers + 1), channels[0], 3, padding=1)
            self.conv2: nn.Layer = nn.Conv3d(channels[0], channels[1], 3, padding=1)
            self.pool = nn.MaxPool3d(3)
        else:
            self.conv1 = nn.Conv2d(2 * (layers + 1), channels[0], 3, padding=1)
            self.conv2 = nn.Conv2d(channels[0], channels[1], 3, padding=1)
        self.head = nn.Linear(deep * side * side * channels[1], 1)

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Find the number of the word between turns; ConfigError where it is not one token that is known."""
        if self.turns == 1:
            return
        found = tokenizer.encode([self._between])[0].ids.tolist()
        if len(found) != 1 or found[0] == tokenizer.unknown:
            raise ConfigError(
                f"model.between: '{self._between}' is {len(found)} tokens {found} of the vocabulary; turns are told "
                "apart by one token that is known, see `between` of Dialogues"
            )
        self._separator = int(found[0])

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor) -> Tensor:
        """ids, segment_ids: [T], offsets: [B + 1]; scores [B, 1]."""
        halves = split_pairs(offsets, segment_ids)
        x = self.dropout(self.word_dropout(self.embedding(ids)))
        second, there_too = self._padded(x, halves[:-1][1::2], halves[1:][1::2])
        if self.turns == 1:
            first, there = self._padded(x, halves[:-1][0::2], halves[1:][0::2])
        else:
            first, there = self._padded(x, *self._turns_of(ids, halves))
            second, there_too = (self._each_turn(part) for part in (second, there_too))
        owns = [(first, second)]
        for layer in self.own:
            a, b = owns[-1]
            owns.append((layer(a, a, there), layer(b, b, there_too)))
        both = ops.logical_and(ops.expand_dims(there, axis=2), ops.expand_dims(there_too, axis=1))
        pictures = [self._products(a, b) for a, b in owns]
        for layer, (a, b) in zip(self.other, owns, strict=True):
            pictures.append(self._products(layer(a, b, there_too), layer(b, a, there)))
        picture = ops.where(ops.expand_dims(both, axis=3), ops.concat(pictures, axis=3), 0.0)
        if self.turns > 1:
            picture = ops.reshape(picture, shape=(-1, self.turns, self.words, self.words, 2 * len(self.other)))
            y = self.pool(ops.elu(self.conv2(self.pool(ops.elu(self.conv1(picture))))))
            return self.head(ops.flatten(y, start=1, end=4))
        y = ops.max_pool2d(ops.elu(self.conv1(picture)), kernel=3, stride=3)
        y = ops.max_pool2d(ops.elu(self.conv2(y)), kernel=3, stride=3)
        return self.head(ops.flatten(y, start=1, end=3))

    def _turns_of(self, ids: Tensor, halves: Tensor) -> tuple[Tensor, Tensor]:
        """Where the turns of each conversation begin and end, int64 [B U] each; those that are not there are empty."""
        if self._separator < 0:
            raise AttributeValueError(
                "DeepAttentionMatching: it does not know the word between turns; call take_tokenizer first"
            )
        between = ops.cast(ops.equal(ids, self._separator), dtype="float64")
        before = ops.cumsum(between, axis=0) - between
        begun = ops.gather(ops.gather(before, halves[:-1]), ops.ragged_segments(halves, ids))
        number = ops.expand_dims(ops.cast(before - begun, dtype="int64"), axis=1)  # of each word its turn
        own = ops.cast(ops.equal(number, tensor(np.arange(self.turns, dtype=np.int64))), dtype="float64")
        rows = ops.segment_sum(own, halves)[0::2]  # [B, U], the words between turns with them
        last = ops.segment_sum(own * ops.expand_dims(between, axis=1), halves)[0::2]
        begins = ops.expand_dims(halves[:-1][0::2], axis=1) + ops.cast(ops.cumsum(rows, axis=1) - rows, dtype="int64")
        ends = begins + ops.cast(rows - last, dtype="int64")
        return ops.flatten(begins, start=0, end=1), ops.flatten(ends, start=0, end=1)

    def _each_turn(self, x: Tensor) -> Tensor:
        """Each of B rows U times, one behind the other: [B U, ...]."""
        numbers = ops.expand_dims(ops.positions(x), axis=1) + tensor(np.zeros(self.turns, np.int64))
        return ops.gather(x, ops.flatten(numbers, start=0, end=1))

    def _padded(self, x: Tensor, starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """The first P rows of each text, [B, P, D], 0 behind its end, and which of them it has, bool [B, P]."""
        places = ops.expand_dims(starts, axis=1) + tensor(np.arange(self.words, dtype=np.int64))
        there = ops.less(places, ops.expand_dims(ends, axis=1))
        rows = ops.gather(x, ops.where(there, places, 0))
        return ops.where(ops.expand_dims(there, axis=2), rows, 0.0), there

    def _products(self, a: Tensor, b: Tensor) -> Tensor:
        """[B, P, P, 1]: of each word of a with each of b, over the root of D."""
        return ops.expand_dims(ops.matmul(a, b, transpose_b=True) * self.width**-0.5, axis=3)
