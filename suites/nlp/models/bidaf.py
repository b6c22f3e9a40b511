"""BiDAF: attention between question and passage in both directions, for the place of an answer (Seo et al. 2017).

Letters: T tokens, B pairs, P tokens of a passage and Q of a question at most, D units of a recurrent layer in one
direction, W width of a word vector, K of one made of a word's characters, L characters of a word.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout
from suites.nlp.models.characters import CharacterConvolutions, CharacterLayers, Highway, read_characters
from suites.nlp.models.simnet import split_pairs

_FAR = 1e9  # stands for infinity among scores


class AttentionFlow(nn.Layer):
    """What each word of a passage sees of the question, and the whole question of the passage (section 2, layer 4).

    S = w [h; u; h u]; a = softmax of a row of S over the question gives u~; b = softmax over the passage of the largest
    of each row gives h~; the result is [h; u~; h u~; h h~].

    Args:
        width: of h and u.
    """

    weight: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.passage = nn.Linear(width, 1, bias=False)
        self.question = nn.Linear(width, 1, bias=False)
        self.add_parameter("weight", (width,), nn.init.Normal(width**-0.5))

    def forward(self, h: Tensor, u: Tensor, there: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """The result [B, P, 4 width], and h~ [B, 1, width].

        h: [B, P, width]; u: [B, Q, width]; there: bool [B, P] and asked: bool [B, Q], which rows are words; each text
        has one or more.
        """
        scores = ops.matmul(h * self.weight, u, transpose_b=True)
        scores = scores + self.passage(h) + ops.transpose(self.question(u), perm=(0, 2, 1))
        scores = ops.where(ops.expand_dims(asked, axis=1), scores, -_FAR)  # [B, P, Q]
        seen = ops.matmul(ops.softmax(scores, axis=-1), u)
        largest = ops.where(there, ops.max(scores, axes=(2,)), -_FAR)
        whole = ops.matmul(ops.expand_dims(ops.softmax(largest, axis=-1), axis=1), h)
        return ops.concat([h, seen, h * seen, h * whole], axis=2), whole


@register("text_model")
class BiDAF(TextModel):
    """Scores of each token to be an answer's first and last one, for `Reading`.

    A word is its own vector and, with `characters`, one that convolutions make of its characters; without them a
    token's vector stands for both: characters in Chinese, pieces of words else. [CLS] stands for no answer; its row
    sees the summary of the passage in place of the question, which is ours. All other tokens of the question are out of
    question.

    Args:
        vocab_size: rows of the embedding.
        width: W; 100 in the paper, with 100 of the characters; 200 without them.
        hidden: D; 100 in the paper.
        dropout: share of the inputs of each recurrent and last layer that is 0 in training; 0.2 in the paper.
        word_dropout: share of the words whose vectors are 0 in training.
        max_length: P, tokens of a window at most.
        max_question: Q, of a question with its special tokens; further ones are not looked at.
        characters: how words are read by their characters; needs `data.characters`. None for words alone.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int = 200,
        hidden: int = 100,
        dropout: float = 0.2,
        word_dropout: float = 0.0,
        max_length: int = 512,
        max_question: int = 66,
        characters: CharacterLayers | None = None,
    ) -> None:
        super().__init__()
        if min(vocab_size, width, hidden, max_length, max_question) < 1:
            raise AttributeValueError(
                f"BiDAF: vocab_size is {vocab_size}, width {width}, hidden {hidden}, max_length {max_length} and "
                f"max_question {max_question}; all must be 1 or more"
            )
        self.vocab_size, self.max_length, self._length = vocab_size, max_length, max_length
        both = 2 * hidden
        self.words = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.word_dropout, self.dropout = WordDropout(word_dropout), nn.Dropout(dropout)
        self.characters = characters
        self.spelling = None if characters is None else CharacterConvolutions(characters)
        whole = width + (0 if self.spelling is None else self.spelling.out_features)
        self.highway = nn.LayerList([Highway(whole) for _ in range(2)])
        self.context = nn.LSTM(whole, hidden, bidirectional=True)
        self.flow = AttentionFlow(both)
        self.modeling = nn.LSTM(4 * both, hidden, layers=2, bidirectional=True, dropout=dropout)
        self.ending = nn.LSTM(both, hidden, bidirectional=True)
        self.start, self.end = nn.Linear(5 * both, 1), nn.Linear(5 * both, 1)
        self._places = tensor(np.arange(max_length, dtype=np.int64)[None])
        self._asked = tensor(np.arange(max_question, dtype=np.int64)[None])

    def forward(
        self, ids: Tensor, offsets: Tensor, segment_ids: Tensor, spelling: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores [T] of first and last tokens.

        ids, segment_ids: int64 [T]; offsets: integer [B + 1]; spelling: integer [T, L], where the model reads them.
        """
        halves = split_pairs(offsets, segment_ids)  # questions and passages in turns
        x = self.word_dropout(self.words(ids))
        spelled = read_characters("BiDAF", self.spelling, spelling)
        x = x if spelled is None else ops.concat([x, spelled], axis=1)
        for layer in self.highway:
            x = layer(x)
        h, _ = self.context(self.dropout(x), halves)
        begins, middles, ends = halves[:-1][0::2], halves[:-1][1::2], halves[1:][1::2]
        asked, u = self._padded(h, begins, middles, self._asked)
        there, p = self._padded(h, middles, ends, self._places)
        g, whole = self.flow(p, u, there, asked)
        g = self._rows(h, g, whole, offsets, segment_ids, middles)
        m, _ = self.modeling(self.dropout(g), halves)
        m2, _ = self.ending(self.dropout(m), halves)
        first = self.start(self.dropout(ops.concat([g, m], axis=1)))
        last = self.end(self.dropout(ops.concat([g, m2], axis=1)))
        none = ops.equal(ops.ragged_positions(offsets, ids), 0)
        open_ = ops.logical_or(ops.equal(segment_ids, 1), none)
        return tuple(ops.where(open_, ops.squeeze(y, axis=1), -_FAR) for y in (first, last))  # type: ignore[return-value]

    @staticmethod
    def _padded(x: Tensor, begins: Tensor, ends: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Which rows of each text are there, bool [B, n], and its first n rows [B, n, 2 D], 0 behind its end."""
        at = ops.expand_dims(begins, axis=1) + places
        there = ops.less(at, ops.expand_dims(ends, axis=1))
        rows = ops.gather(x, ops.where(there, at, 0))
        return there, ops.where(ops.expand_dims(there, axis=2), rows, 0.0)

    def _rows(
        self, h: Tensor, g: Tensor, whole: Tensor, offsets: Tensor, segment_ids: Tensor, middles: Tensor
    ) -> Tensor:
        """The flow of each token [T, 8 D]: of a passage's its own, of [CLS] that of the summary, of others h alone."""
        texts = ops.ragged_segments(offsets, h)
        count = ops.cast(ops.ragged_positions(offsets, h), dtype="int64")
        begun = ops.gather(ops.cast(middles, dtype="int64") - ops.cast(offsets[:-1], dtype="int64"), texts)
        inside = ops.equal(segment_ids, 1)
        place = ops.where(inside, count - begun, 0)
        own = ops.gather(ops.flatten(g, start=0, end=1), texts * self._length + place)
        summary = ops.gather(ops.squeeze(whole, axis=1), texts)
        first = ops.expand_dims(ops.cast(ops.equal(count, 0), dtype="float32"), axis=1)
        other = ops.concat([h, summary * first, h * summary * first, h * 0.0], axis=1)
        return ops.where(ops.expand_dims(inside, axis=1), own, other)
