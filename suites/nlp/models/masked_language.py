"""MaskedLanguageModel: a published encoder with the head for hidden words that it was pretrained with.

Letters: T tokens, B sequences, M hidden tokens, V words.
"""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.nlp.models.base import TextModel
from suites.nlp.models.encoder import TextEncoder
from suites.nlp.models.heads import MaskedLanguageHead
from suites.nlp.models.published import PublishedEncoder
from suites.nlp.models.published_names import LANGUAGE_HEADS, OUTPUT_MATRIX
from suites.nlp.models.vectors import encoder_vectors


@register("text_model")
class MaskedLanguageModel(TextModel):
    """The words of hidden tokens.

    Args:
        encoder: of {type: Published}; its word table is the output matrix too.
        weights: published weights that it starts from, such as `hf:OWNER/NAME`; None for none.
    """

    schemes = ("hf",)

    def __init__(self, encoder: TextEncoder, weights: str | None = None) -> None:
        super().__init__()
        if not isinstance(encoder, PublishedEncoder):
            raise AttributeValueError("MaskedLanguageModel: takes an encoder of {type: Published}")
        c = encoder.config
        self.encoder = encoder
        self.vocab_size, self.max_length, self.task_types = encoder.vocab_size, encoder.max_length, encoder.task_types
        self._called = LANGUAGE_HEADS[c.kind]
        self.words = MaskedLanguageHead(c, self._called.activation, self._called.biases, c.norm_biases)
        start_from(self, weights)

    def names_in(self, scheme: str) -> Names:
        """The encoder's names, and those of the head beside it."""
        own = {
            "words.transform.weight": f"{self._called.transform}.weight",
            "words.norm.scale": f"{self._called.norm}.weight",
            "words.bias": self._called.bias,
        }
        if self.words.transform.bias is not None:
            own["words.transform.bias"] = f"{self._called.transform}.bias"
        if self.encoder.config.norm_biases:
            own["words.norm.bias"] = f"{self._called.norm}.bias"
        copies = {OUTPUT_MATRIX: "encoder.embeddings.word.weight"}
        found = self.encoder.names_in(scheme).inside(self.encoder.prefix).below("encoder.")
        return found | Names({ours: Source((theirs,)) for ours, theirs in own.items()}, (), copies)

    def current_name(self, name: str) -> str:
        """What a file's older name is today."""
        return self.encoder.current_name(name)

    def forward(self, ids: Tensor, offsets: Tensor, masked: Tensor, **more: Any) -> Tensor:
        """ids [T], offsets [B + 1], masked int64 [M] (places in `ids`) and what else the encoder takes; [M, V]."""
        sequence, _ = self.encoder(ids, offsets, **more)
        return self.words(ops.gather(sequence, masked), self.encoder.embeddings.word.weight)

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """What the encoder gives, or one of its layers; see `TextModel.token_vectors`."""
        return encoder_vectors(self.encoder, ids, offsets, layer, **more)
