"""Copying: a written word is one of the vocabulary, or one of the source's words (See et al. 2017, section 2.2).

Letters: S source tokens, T target tokens, B texts, L places of a source, V words, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from framework import nn, ops, tensor
from framework.tensors import Tensor

_LEAST = 1e-30  # of a probability, before its logarithm


class Copying(nn.Layer):
    """P(w) = g softmax(logits)[w] + (1 - g) sum of the attention to the source's words that are w (equation 9).

    g = sigmoid(w_h h + w_s s + w_x x + b) of what is looked at, the decoder's state and its input (equation 8). Both
    sides have one vocabulary. A word that this does not have cannot be copied; pieces of words and bytes leave none.

    Args:
        context: width of h, what is looked at.
        state: width of s, the decoder's state.
        given: width of x, the vector of the word before.
        length: L.
    """

    def __init__(self, context: int, state: int, given: int, length: int) -> None:
        super().__init__()
        self.gate = nn.Linear(context + state + given, 1)
        self._span = tensor(np.arange(length, dtype=np.int64)[None])

    def forward(
        self,
        logits: Tensor,
        about: tuple[Tensor, Tensor, Tensor],
        weights: Tensor,
        texts: Tensor,
        source: Tensor,
        source_offsets: Tensor,
    ) -> Tensor:
        """Log-probabilities [T, V], which are logits as well.

        Args:
            logits: [T, V].
            about: h, s and x, each [T, ...].
            weights: [T, L], attention by place in the source.
            texts: int64 [T], the number of each row's source.
            source: int64 [S], its words.
            source_offsets: integer [B + 1].
        """
        places = ops.expand_dims(source_offsets[:-1], axis=1) + self._span  # [B, L]
        there = ops.less(places, ops.expand_dims(source_offsets[1:], axis=1))
        words = ops.gather(ops.gather(source, ops.where(there, places, 0)), texts)  # [T, L]; 0 behind an end
        return self.mixed(logits, about, weights, words)

    def mixed(
        self,
        logits: Tensor,
        about: tuple[Tensor, Tensor, Tensor],
        weights: Tensor,
        words: Tensor,
        product: Callable[[nn.Linear, Tensor], Tensor] = nn.Linear.__call__,
    ) -> Tensor:
        """The same of each row's own source words.

        Args:
            logits, about, weights: as in `forward`.
            words: int64 [T, L], the words at these places; any where the weight is 0.
            product: computes the linear layer.

        Returns log-probabilities [T, V].
        """
        write = ops.sigmoid(product(self.gate, ops.concat(list(about), axis=1)))
        copied = ops.put_along_axis_add(ops.full_like(logits, value=0.0), words, weights, axis=1)
        return ops.log(ops.maximum(write * ops.softmax(logits) + (1.0 - write) * copied, _LEAST))


def numbered(memory: Tensor, source: Tensor) -> Tensor:
    """What is kept of a source [S, W], and behind it its words' numbers, [S, W + 1]: exact in float32 below 2^24."""
    return ops.concat([memory, ops.expand_dims(ops.cast(source, dtype="float32"), axis=1)], axis=1)


def numbers_of(column: Tensor) -> Tensor:
    """The words' numbers, int64 [S], of a column [S, 1] of `numbered`."""
    return ops.cast(ops.squeeze(column, axis=1), dtype="int64")
