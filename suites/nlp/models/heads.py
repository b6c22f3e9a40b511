"""What stands on a text encoder: classes of sequences or tokens, spans, and the tasks of pretraining.

Letters: T tokens, B sequences, D hidden size, K classes, M masked tokens, V words.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn.activation import activation
from framework.nn.init import Constant, TruncatedNormal
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.nlp.models.base import TextModel
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_config import BertConfig
from suites.nlp.models.encoder import LayeredEncoder, TextEncoder
from suites.nlp.models.published_config import EncoderConfig
from suites.nlp.models.vectors import encoder_vectors

Head = Literal["new", "published"]


class _OnEncoder(TextModel):
    """An encoder, dropout and a linear layer to `outputs` numbers; the encoder may start from published weights."""

    class_tensors: tuple[str, ...] = (r"^fc\.", r"^encoder\.pooler\.")
    head_names: ClassVar[dict[str, str]] = {"fc": "classifier"}  # as PEFT's files have them

    def __init__(
        self, encoder: TextEncoder, outputs: int, dropout: float, weights: str | None, head: Head = "new"
    ) -> None:
        super().__init__()
        if outputs < 1:
            raise AttributeValueError(f"{type(self).__name__}: num_classes is {outputs}; it must be 1 or more")
        self.encoder = encoder
        self.vocab_size, self.max_length = encoder.vocab_size, encoder.max_length
        self.task_types = encoder.task_types
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(encoder.hidden_size, outputs, initializer=TruncatedNormal(0.02))
        if weights is not None and not self.schemes:
            raise AttributeValueError(
                f"{type(self).__name__}: weights are for an encoder of {{type: Published}}; those of a "
                f"{type(encoder).__name__} are named in runtime.weights"
            )
        self._head = head
        if head == "published":
            self.class_tensors = ()
        start_from(self, weights)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names the encoder knows."""
        return tuple(getattr(self.encoder, "schemes", ()))

    def names_in(self, scheme: str) -> Names:
        """The encoder's names, and those of a published head; else the head is new."""
        found: Names = self.encoder.names_in(scheme)  # type: ignore[attr-defined]
        if self._head == "new":
            return found.below("encoder.")
        beside: Names = self.encoder.names_beside()  # type: ignore[attr-defined]
        own = Names({f"fc.{leaf}": Source((f"{self.output_name}.{leaf}",)) for leaf in ("weight", "bias")})
        return (found.inside(self.prefix) | beside).below("encoder.") | own

    @property
    def output_name(self) -> str:
        """What published files call the linear layer `fc`."""
        return "classifier"

    @property
    def prefix(self) -> str:
        """What stands before the encoder's names in files of the whole model."""
        return str(getattr(self.encoder, "prefix", ""))

    def current_name(self, name: str) -> str:
        """What a file's older name is today."""
        renamed = getattr(self.encoder, "current_name", None)
        return name if renamed is None else str(renamed(name))

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """What the encoder gives, or one of its layers; see `TextModel.token_vectors`."""
        return encoder_vectors(self.encoder, ids, offsets, layer, **more)


@register("text_model")
class SequenceClassifier(_OnEncoder):
    """Classes of sequences, or one number each where num_classes is 1: a linear layer on one vector a sequence.

    Args:
        encoder: token ids to vectors.
        num_classes: K.
        dropout: of the vector.
        pooling: "first" takes the encoder's pooled vector, made from the first token, as BERT does; "mean" the mean of
            all tokens' vectors, for encoders trained so, such as sentence-transformers' MiniLM.
        weights: published weights that the encoder starts from, such as `hf:OWNER/NAME`; None for none.
        head: with weights, whether the classes are "new", or the "published" ones, whose encoder has the summary of a
            classifier.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        num_classes: int,
        dropout: float = 0.1,
        pooling: Literal["first", "mean"] = "first",
        weights: str | None = None,
        head: Head = "new",
    ) -> None:
        super().__init__(encoder, num_classes, dropout, weights, head)
        self.num_classes = num_classes
        self._mean = pooling == "mean"

    def forward(self, ids: Tensor, offsets: Tensor, **more: Any) -> Tensor:
        """ids [T], offsets [B + 1] and what else the encoder takes; logits [B, K]."""
        sequence, pooled = self.encoder(ids, offsets, **more)
        return self._classes(sequence, pooled, offsets)

    def features(self, ids: Tensor, offsets: Tensor, **more: Any) -> Tensor:
        """What the linear layer sees: [B, D] of what `forward` takes."""
        sequence, pooled = self.encoder(ids, offsets, **more)
        return self._seen(sequence, pooled, offsets)

    @property
    def output_name(self) -> str:
        """What published classifiers of the encoder's family call the linear layer `fc`."""
        return str(getattr(self.encoder, "output_name", "") or "classifier")

    def with_states(self, ids: Tensor, offsets: Tensor, **more: Any) -> tuple[Tensor, list[Tensor]]:
        """The logits, and what each layer of a Bert gives (`Bert.states`)."""
        if not isinstance(self.encoder, LayeredEncoder):
            return super().with_states(ids, offsets, **more)
        states = self.encoder.states(ids, offsets, **more)
        return self._classes(states[-1], self.encoder.pooled(states[-1], offsets), offsets), states

    def _classes(self, sequence: Tensor, pooled: Tensor, offsets: Tensor) -> Tensor:
        return self.fc(self.dropout(self._seen(sequence, pooled, offsets)))

    def _seen(self, sequence: Tensor, pooled: Tensor, offsets: Tensor) -> Tensor:
        return ops.segment_mean(sequence, offsets) if self._mean else pooled


@register("text_model")
class TokenClassifier(_OnEncoder):
    """Classes of tokens: a linear layer on each token's vector.

    Args:
        encoder: token ids to vectors.
        num_classes: K.
        dropout: of the vectors.
        weights: published weights that the encoder starts from, such as `hf:OWNER/NAME`; None for none.
        head: see `SequenceClassifier`.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        num_classes: int,
        dropout: float = 0.1,
        weights: str | None = None,
        head: Head = "new",
    ) -> None:
        super().__init__(encoder, num_classes, dropout, weights, head)
        self.num_classes = num_classes

    def forward(self, ids: Tensor, offsets: Tensor, **more: Any) -> Tensor:
        """ids [T], offsets [B + 1] and what else the encoder takes; logits [T, K]."""
        return self.fc(self.dropout(self.encoder(ids, offsets, **more)[0]))


@register("text_model")
class SpanPredictor(_OnEncoder):
    """Where an answer begins and ends: two numbers a token.

    Args:
        encoder: token ids to vectors.
        dropout: of the vectors; the published models have none here.
        weights: published weights that the encoder starts from, such as `hf:OWNER/NAME`; None for none.
        head: see `SequenceClassifier`.
    """

    def __init__(
        self, encoder: TextEncoder, dropout: float = 0.0, weights: str | None = None, head: Head = "new"
    ) -> None:
        super().__init__(encoder, 2, dropout, weights, head)

    @property
    def output_name(self) -> str:
        """What published files call the linear layer `fc`."""
        return "qa_outputs"

    def forward(self, ids: Tensor, offsets: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
        """ids [T], offsets [B + 1] and what else the encoder takes; start [T] and end [T]."""
        logits = self.fc(self.dropout(self.encoder(ids, offsets, **more)[0]))
        start, end = ops.split(logits, axis=1, sizes=[1, 1])
        return ops.squeeze(start, axis=1), ops.squeeze(end, axis=1)


class MaskedLanguageHead(nn.Layer):
    """Vectors to words: a linear layer, activation and norm, then the products with the word table, and a bias.

    Args:
        config: of the encoder, whose word table is the output matrix too.
        activate: name of the activation; None for the encoder's.
        biases: of the linear layer.
        norm_biases: of the norm.
    """

    bias: Tensor

    def __init__(
        self,
        config: BertConfig | EncoderConfig,
        activate: str | None = None,
        biases: bool = True,
        norm_biases: bool = True,
    ) -> None:
        super().__init__()
        width = getattr(config, "embedding_size", config.hidden_size)
        self.transform = nn.Linear(config.hidden_size, width, biases, TruncatedNormal(config.init_std))
        self.norm = nn.LayerNorm(width, config.eps, norm_biases)
        self.add_parameter("bias", (config.vocab_size,), Constant(0.0))
        self._activation = activation(activate or config.activation)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """x: [M, D]; words: the word table [V, D]; logits: [M, V]."""
        return ops.matmul(self.norm(self._activation(self.transform(x))), words, self.bias, transpose_b=True)


@register("text_model")
class Pretraining(TextModel):
    """Masked words and next sentence, the two tasks that BERT and ERNIE are pretrained on.

    Args:
        encoder: token ids to vectors.
    """

    def __init__(self, encoder: Bert) -> None:
        super().__init__()
        self.encoder = encoder
        self.vocab_size, self.max_length = encoder.vocab_size, encoder.max_length
        self.task_types = encoder.task_types
        self.words = MaskedLanguageHead(encoder.config)
        self.next_sentence = nn.Linear(encoder.hidden_size, 2, initializer=TruncatedNormal(encoder.config.init_std))

    def forward(self, ids: Tensor, offsets: Tensor, masked: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
        """Logits of the masked words and of the next sentence.

        Args:
            ids: int64 [T].
            offsets: int64 [B + 1].
            masked: int64 [M], the tokens to guess, as places in `ids`; others cost nothing.
            more: what else the encoder takes.

        Returns:
            words [M, V] and next sentence [B, 2].
        """
        sequence, pooled = self.encoder(ids, offsets, **more)
        words = self.words(ops.gather(sequence, masked), self.encoder.embeddings.word.weight)
        return words, self.next_sentence(pooled)

    def token_vectors(self, ids: Tensor, offsets: Tensor, layer: int | None = None, **more: Any) -> Tensor:
        """What the encoder gives, or one of its layers; see `TextModel.token_vectors`."""
        return encoder_vectors(self.encoder, ids, offsets, layer, **more)
