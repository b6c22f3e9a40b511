"""What text encoders have in common. Letters: T tokens of all sequences, B sequences, D hidden size.

Sequences are ragged: the tokens of all of them one after the other, and where each begins and ends. Nothing is padded.
"""

from __future__ import annotations

import numpy as np

from framework import nn, tensor
from framework.tensors import Tensor
from suites.engine.registry import register_role
from suites.engine.weights import drawn


class TextEncoder(nn.Layer):
    """Token ids to vectors.

    Attributes:
        hidden_size: D.
        vocab_size: rows of the word table.
        max_length: tokens of a sequence at most.
        task_types: rows of the table of task vectors, 0 for none.
    """

    hidden_size: int
    vocab_size: int
    max_length: int | None = None
    task_types: int = 0

    def forward(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        positions: Tensor | None = None,
        task_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Vectors of tokens and of sequences.

        Args:
            ids: int64 [T], the tokens of all sequences one after the other.
            offsets: int64 [B + 1]; sequence b has tokens offsets[b] ... offsets[b + 1] - 1, at least one.
            segment_ids: int64 [T], which text of a pair; all 0 when None.
            positions: int64 [T], the place of each token in its sequence; counted when None.
            task_ids: int64 [T], for encoders with task embeddings; all 0 when None.

        Returns:
            sequence [T, D] and pooled [B, D].
        """
        raise NotImplementedError


class LayeredEncoder(TextEncoder):
    """An encoder of layers whose results may be looked at.

    Attributes:
        layer_count: how many there are.
    """

    layer_count: int

    def forward(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        positions: Tensor | None = None,
        task_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `TextEncoder.forward`: the last layer's vectors, and what `pooled` makes of them."""
        x = self.states(ids, offsets, segment_ids, positions, task_ids)[-1]
        return x, self.pooled(x, offsets)

    def states(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        positions: Tensor | None = None,
        task_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """What each layer gives, [T, D] each: the embeddings first, `forward`'s sequence last; arguments as there."""
        raise NotImplementedError

    def pooled(self, sequence: Tensor, offsets: Tensor) -> Tensor:
        """[B, D]: a vector of each sequence.  sequence: [T, D], as `forward` gives it; offsets: [B + 1]."""
        raise NotImplementedError

    def answers(self) -> dict[str, np.ndarray]:
        """Vectors of two drawn sequences, of their tokens and pooled; see `suites.engine.weights.answers`."""
        ids, offsets = tensor(drawn(8, self.vocab_size)), tensor(np.array([0, 5, 8], np.int64))
        tokens, pooled = self(ids, offsets)
        return {"tokens": tokens.numpy().mean(axis=0), "pooled": pooled.numpy().mean(axis=0)}


register_role("encoder", TextEncoder, doc="Token ids to a vector for each token and each sequence.")
