"""MMDNN: two texts matched word by word in a picture of products, Baidu's SimNet that looks at both at once.

After `mm_dnn` of PaddlePaddle's similarity_net; Pang et al. 2016, "Text Matching as Image Recognition", describes the
picture. Letters: B pairs, P words of a text, D units of a recurrent layer, C filters, G cells of the pooled picture a
side, K classes.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout
from suites.nlp.models.recurrent import turned_rows
from suites.nlp.models.simnet import split_pairs

_FAR = 1e9  # stands for infinity


@register("text_model")
class MMDNN(TextModel):
    """Classes of pairs, or a score for `Reranking`, from a picture of how each word of one text fits each of the other.

    Both texts go through one LSTM, and through a second one from the right on what the first one gives. A pixel is the
    product of two words' states; a convolution, the largest of each of G x G parts, and two layers follow.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K, such as match or not; 1 for a score.
        words: P, of each text; those behind are not read. G divides it.
        width: of a word vector.
        hidden: D.
        filters: C.
        window: side of the convolution's window, odd.
        cells: G.
        last: units of the layer before the last.
        dropout: share of what goes into the last two layers that is 0 in training.
        word_dropout: share of the words whose vectors are 0 in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        words: int = 32,
        width: int = 128,
        hidden: int = 32,
        filters: int = 64,
        window: int = 3,
        cells: int = 4,
        last: int = 128,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(vocab_size, num_classes, words, width, hidden, filters, cells, last) < 1 or window % 2 == 0:
            raise AttributeValueError(
                f"MMDNN: vocab_size is {vocab_size}, num_classes {num_classes}, words {words}, width {width}, hidden "
                f"{hidden}, filters {filters}, cells {cells}, last {last} and window {window}; all must be 1 or more, "
                "window odd"
            )
        if words % cells:
            raise AttributeValueError(f"MMDNN: cells is {cells} but must divide words, which is {words}")
        self.vocab_size, self.num_classes, self.words, self._part = vocab_size, num_classes, words, words // cells
        self.embedding = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.dropout, self.word_dropout = nn.Dropout(dropout), WordDropout(word_dropout)
        self.rightward, self.leftward = nn.LSTM(width, hidden), nn.LSTM(hidden, hidden)
        self.conv = nn.Conv2d(1, filters, window, padding=window // 2)
        self.hidden = nn.Linear(cells * cells * filters, last)
        self.head = nn.Linear(last, num_classes)
        self._places = tensor(np.arange(words, dtype=np.int64)[None])

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor) -> Tensor:
        """ids, segment_ids: [T], offsets: [B + 1]; logits [B, K]."""
        halves = split_pairs(offsets, segment_ids)
        right, _ = self.rightward(self.word_dropout(self.embedding(ids)), halves)
        turned = turned_rows(halves, ids)
        left, _ = self.leftward(ops.gather(right, turned), halves)
        x = ops.concat([right, ops.gather(left, turned)], axis=1)
        first, there = self._padded(x, halves[:-1][0::2], halves[1:][0::2])
        second, there_too = self._padded(x, halves[:-1][1::2], halves[1:][1::2])
        picture = self.conv(ops.expand_dims(ops.matmul(first, second, transpose_b=True), axis=3))
        both = ops.logical_and(ops.expand_dims(there, axis=2), ops.expand_dims(there_too, axis=1))
        picture = ops.where(ops.expand_dims(both, axis=3), picture, -_FAR)
        y = ops.relu(ops.max_pool2d(picture, kernel=self._part, stride=self._part))
        y = ops.tanh(self.hidden(self.dropout(ops.flatten(y, start=1, end=3))))
        return self.head(self.dropout(y))

    def _padded(self, x: Tensor, begins: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """The first P rows of each text, [B, P, 2 D], 0 behind its end, and which of them it has, bool [B, P]."""
        at = ops.expand_dims(begins, axis=1) + self._places
        there = ops.less(at, ops.expand_dims(ends, axis=1))
        return ops.where(ops.expand_dims(there, axis=2), ops.gather(x, ops.where(there, at, 0)), 0.0), there
