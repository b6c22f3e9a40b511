"""TextVectors: an encoder alone, whose token vectors are the result. Letters: T tokens, B sequences, D width."""

from __future__ import annotations

from typing import Any

from framework.errors import AttributeValueError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, start_from
from suites.nlp.models.base import TextModel
from suites.nlp.models.encoder import LayeredEncoder, TextEncoder


@register("text_model")
class TextVectors(TextModel):
    """A vector for each token, to be pooled to one for each text.

    Args:
        encoder: token ids to vectors.
        weights: published weights that an encoder of {type: Published} starts from, such as `hf:OWNER/NAME`; None for
            none.
    """

    def __init__(self, encoder: TextEncoder, weights: str | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.vocab_size, self.max_length = encoder.vocab_size, encoder.max_length
        if weights is not None and not self.schemes:
            raise AttributeValueError("TextVectors: weights are for an encoder of {type: Published}")
        start_from(self, weights)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names the encoder knows."""
        return tuple(getattr(self.encoder, "schemes", ()))

    def names_in(self, scheme: str) -> Names:
        """The encoder's names."""
        found: Names = self.encoder.names_in(scheme)  # type: ignore[attr-defined]
        return found.below("encoder.")

    def current_name(self, name: str) -> str:
        """What a file's older name is today."""
        renamed = getattr(self.encoder, "current_name", None)
        return name if renamed is None else str(renamed(name))

    def forward(self, ids: Tensor, offsets: Tensor, **more: Any) -> Tensor:
        """ids [T], offsets [B + 1] and what else the encoder takes; vectors [T, D]."""
        return self.token_vectors(ids, offsets, **more)

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """What the encoder gives, or one of its layers; see `TextModel.token_vectors`."""
        return encoder_vectors(self.encoder, ids, offsets, layer, **more)


def vector_width(model: TextModel) -> int | None:
    """Numbers of the vectors that `model.token_vectors` gives, where it has an encoder; else None."""
    encoder = getattr(model, "encoder", None)
    return encoder.hidden_size if isinstance(encoder, TextEncoder) else None


def encoder_vectors(
    encoder: TextEncoder, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any
) -> Tensor:
    """[T, D]: what an encoder gives for each token, or layer `layer` of one with layers, from 1 on."""
    if layer is None:
        return encoder(ids, offsets, **more)[0]
    if not isinstance(encoder, LayeredEncoder):
        raise NotSupportedError(f"{type(encoder).__name__}: gives no vectors of layers; a Bert does")
    if not 1 <= layer <= encoder.layer_count:
        raise AttributeValueError(
            f"{type(encoder).__name__}: there is no layer {layer}; takes 1 to {encoder.layer_count}"
        )
    return encoder.states(ids, offsets, **more)[layer]
