"""TextModel: what every model of the suite is to the task, whatever it predicts.

Letters: T tokens, B sequences, K classes, D width.
"""

from __future__ import annotations

from typing import Any

from framework import nn
from framework.errors import NotSupportedError
from framework.tensors import Tensor
from suites.engine.registry import register_role
from suites.nlp.models.characters import CharacterLayers
from suites.nlp.tokenizers import Tokenizer


class TextModel(nn.Layer):
    """A network on ragged sequences: `model(ids, offsets, segment_ids)`.

    ids, segment_ids: int64 [T]; offsets: int64 [B + 1], sequence b has rows offsets[b] ... offsets[b + 1] - 1, one or
    more. It returns logits [B, K] (a class or a number a sequence), [T, K] (a tag a token), or a pair of [T] (scores
    of an answer's first and last token).

    Attributes:
        vocab_size: rows of the embedding; ids are below it.
        max_length: tokens of a sequence at most; None for any number.
        characters: how the network reads the characters of tokens; None where it does not.
        task_types: rows of the table of task vectors, 0 for none.
    """

    vocab_size: int
    task_types: int = 0
    characters: CharacterLayers | None = None
    max_length: int | None = None

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Keep of the tokenizer what the network asks of it; by default nothing. Called before anything is computed."""

    def with_states(self, ids: Tensor, offsets: Tensor, **more: Any) -> tuple[Tensor, list[Tensor]]:
        """The logits, and what each layer of the encoder gives, to learn from or to teach with.

        By default NotSupportedError: the model has no such layers.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: gives no states of layers; only a SequenceClassifier on a Bert does"
        )

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """A vector for each token, [T, D], to make embeddings of: those below the head, or of layer `layer` from 1 on.

        By default NotSupportedError: the model has none.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: gives no vectors of tokens; models with an encoder do, such as SequenceClassifier "
            "and RecurrentClassifier"
        )


register_role("text_model", TextModel, doc="A whole network on ragged sequences of token ids.")
