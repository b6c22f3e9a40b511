"""TextVectors: an encoder alone, whose token vectors are the result. Letters: T tokens, B sequences, D width."""

from __future__ import annotations

from typing import Any

from framework.tensor import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.encoder import TextEncoder


@register("text_model")
class TextVectors(TextModel):
    """A vector for each token, to be pooled to one for each text.

    Args:
        encoder: token ids to vectors.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.vocab_size, self.max_length = encoder.vocab_size, encoder.max_length

    def forward(self, ids: Tensor, offsets: Tensor, **more: Any) -> Tensor:
        """ids [T], offsets [B + 1] and what else the encoder takes; vectors [T, D]."""
        return self.encoder(ids, offsets, **more)[0]
