"""What the classic models read: word vectors, with vectors of neighbouring pairs beside them where asked for."""

from __future__ import annotations

from framework import nn, ops
from framework.tensors import Tensor

_FIRST, _SECOND = 7919, 104729  # primes that spread pairs over the table


class WordVectors(nn.Layer):
    """A vector for each token, and one for it with the token after it.

    Pairs share a table of fixed size by hashing: no vocabulary of pairs is needed, and those that meet in a row are
    told apart by the single vectors.

    Args:
        vocab_size: tokens.
        width: of a token's vector.
        pairs: rows of the table of pairs; 0 for none.
        pair_width: of a pair's vector.
    """

    def __init__(self, vocab_size: int, width: int, pairs: int = 0, pair_width: int = 64) -> None:
        super().__init__()
        self.single = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.pairs = None
        if pairs:
            self.pairs = nn.Embedding(pairs, pair_width, initializer=nn.init.Normal(pair_width**-0.5))
        self.out_features = width + (pair_width if pairs else 0)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """ids: int64 [T], offsets: integer [B + 1]; result [T, out_features]. A last token's pair is with number 0."""
        x = self.single(ids)
        if self.pairs is None:
            return x
        number = ids * _FIRST + following(ids, offsets) * _SECOND
        return ops.concat([x, self.pairs(ops.mod(number, self.pairs.rows))], axis=1)


def following(ids: Tensor, offsets: Tensor) -> Tensor:
    """The token after each one in its sequence, 0 after the last.  ids, result: int64 [T]; offsets: [B + 1]."""
    sequence = ops.ragged_segments(offsets, ids)
    nothing = ops.full(shape=[1], value=-1, dtype="int64")
    next_ids, next_sequence = (ops.concat([x[1:], nothing], axis=0) for x in (ids, sequence))
    return ops.where(ops.equal(next_sequence, sequence), next_ids, 0)
