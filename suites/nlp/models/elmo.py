"""ELMo: a language model in both directions, and what its layers know of a word in its text (Peters et al. 2018).

Letters: T tokens, B sequences, N layers, L characters of a word, W width of a word vector and of a layer in one
direction, V words, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.characters import CharacterConvolutions, CharacterLayers, read_characters
from suites.nlp.models.recurrent import Pooling, pooled, turned_rows


class BiLM(nn.Layer):
    """Word vectors, and N layers of LSTMs from the left and N from the right, which know nothing of each other.

    A word's vector is its own, or with `characters` made of its characters, by a linear layer to width W.

    A layer above the first adds what goes into it to what comes out (section 3.4).

    Args:
        vocab_size: V.
        width: W.
        layers: N.
        dropout: share of what goes into layers that is 0 in training.
        characters: how words are read by their characters; None for vectors of words.
    """

    def __init__(
        self, vocab_size: int, width: int, layers: int, dropout: float, characters: CharacterLayers | None = None
    ) -> None:
        super().__init__()
        own = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5)) if characters is None else None
        self.words, self.spelling, self.projection = own, None, None
        if characters is not None:
            self.spelling = CharacterConvolutions(characters)
            self.projection = nn.Linear(self.spelling.out_features, width)
        self.rightward = nn.LayerList(nn.LSTM(width, width) for _ in range(layers))
        self.leftward = nn.LayerList(nn.LSTM(width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, ids: Tensor, offsets: Tensor, spelling: Tensor | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Layers 0 (word vectors) to N from the left, and those from the right, [T, W] each.

        ids: int64 [T]; offsets: integer [B + 1]; spelling: integer [T, L], where they are read.
        """
        turned = turned_rows(offsets, ids)
        x = self._vectors(ids, spelling)
        right = self._layers(self.rightward, x, offsets)
        left = self._layers(self.leftward, ops.gather(x, turned), offsets)
        return right, [x, *(ops.gather(each, turned) for each in left[1:])]

    def _vectors(self, ids: Tensor, spelling: Tensor | None) -> Tensor:
        spelled = read_characters("ELMo", self.spelling, spelling)
        if spelled is None or self.projection is None:
            assert self.words is not None
            return self.words(ids)
        return self.projection(spelled)

    def _layers(self, cells: nn.LayerList, x: Tensor, offsets: Tensor) -> list[Tensor]:
        found = [x]
        for number, layer in enumerate(cells):
            y, _ = layer(self.dropout(found[-1]), offsets)
            found.append(y if number == 0 else y + found[-1])
        return found


class ScalarMix(nn.Layer):
    """gamma times the sum of layers, whose shares are a softmax of numbers that are learned (equation 1).

    Args:
        count: of layers.
    """

    shares: Tensor
    gamma: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.add_parameter("shares", (count,), nn.init.Constant(0.0))
        self.add_parameter("gamma", (1,), nn.init.Constant(1.0))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """layers: [T, D] each; result [T, D]."""
        shares = ops.softmax(self.shares)
        total = layers[0] * shares[0]
        for number, layer in enumerate(layers[1:], start=1):
            total = total + layer * shares[number]
        return total * self.gamma


@register("text_model")
class BiLanguageModel(TextModel):
    """The word after each and the one before it, for `BiLanguageModeling`; what `ElmoClassifier` begins with.

    Words have vectors of their own, or with `characters` the paper's: convolutions over their characters, highway
    layers and a linear one, so that words that the vocabulary lacks are told apart.

    Args:
        vocab_size: V.
        width: W.
        layers: N; 2 in the paper.
        dropout: share of what goes into layers and the output that is 0 in training.
        max_length: tokens of a window at most.
        characters: how words are read by their characters; needs `data.characters`. None for vectors of words.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int = 256,
        layers: int = 2,
        dropout: float = 0.1,
        max_length: int = 1024,
        characters: CharacterLayers | None = None,
    ) -> None:
        super().__init__()
        _positive("BiLanguageModel", vocab_size=vocab_size, width=width, layers=layers, max_length=max_length)
        self.vocab_size, self.max_length = vocab_size, max_length
        self.characters = characters
        self.bilm = BiLM(vocab_size, width, layers, dropout, characters)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab_size)  # one for both directions

    def forward(self, ids: Tensor, offsets: Tensor, spelling: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits [T, V] of the word after each, given those up to it, and of the one before, given those from it on."""
        right, left = self.bilm(ids, offsets, spelling)
        return self.head(self.dropout(right[-1])), self.head(self.dropout(left[-1]))


@register("text_model")
class ElmoClassifier(TextModel):
    """Classes of texts by an LSTM in both directions on the mixed layers of a `BiLanguageModel`.

    `runtime.weights` names the weights of one with the same vocabulary, width and layers, and the same characters.

    Args:
        vocab_size: V.
        num_classes: K.
        width: W of the language model.
        layers: N of it.
        hidden: units in each direction on it.
        pooling: the largest value over the text ("max"), the "mean", or the "last" row.
        dropout: share of the mixed layers and the pooled rows that is 0 in training.
        tuned: train the language model too; false takes its layers as features.
        max_length: tokens of a text at most.
        characters: how the language model reads words by their characters; needs `data.characters`. None for vectors of
            words.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        width: int = 256,
        layers: int = 2,
        hidden: int = 128,
        pooling: Pooling = "max",
        dropout: float = 0.5,
        tuned: bool = True,
        max_length: int = 1024,
        characters: CharacterLayers | None = None,
    ) -> None:
        super().__init__()
        _positive("ElmoClassifier", vocab_size=vocab_size, num_classes=num_classes, width=width, layers=layers,
                  hidden=hidden, max_length=max_length)  # fmt: skip
        self.vocab_size, self.max_length = vocab_size, max_length
        self.characters = characters
        self.bilm = BiLM(vocab_size, width, layers, 0.0, characters)
        self.mix = ScalarMix(layers + 1)
        self.cells = nn.LSTM(2 * width, hidden, bidirectional=True)
        self.head = nn.Linear(2 * hidden, num_classes)
        self.dropout = nn.Dropout(dropout)
        self._pooling, self._tuned = pooling, tuned

    def forward(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        spelling: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, K].  ids: int64 [T]; offsets: integer [B + 1]; spelling: integer [T, L], where they are read.

        The segments make no difference.
        """
        x, _ = self.cells(self.dropout(self.token_vectors(ids, offsets, spelling=spelling)), offsets)
        return self.head(self.dropout(pooled(x, offsets, self._pooling)))

    def token_vectors(
        self,
        ids: Tensor,
        offsets: Tensor,
        layer: int | None = None,
        spelling: Tensor | None = None,
        **more: object,
    ) -> Tensor:
        """The mixed layers, [T, 2 W], or one of them, from 1 on."""
        right, left = self.bilm(ids, offsets, spelling)
        both = [ops.concat([a, b], axis=1) for a, b in zip(right, left, strict=True)]
        if layer is not None:
            if not 1 <= layer < len(both):
                raise AttributeValueError(f"ElmoClassifier: there is no layer {layer}; takes 1 to {len(both) - 1}")
            return both[layer]
        return self.mix(both if self._tuned else [each.detach() for each in both])


def _positive(name: str, **sizes: int) -> None:
    if min(sizes.values()) < 1:
        raise AttributeValueError(f"{name}: {', '.join(f'{k} is {v}' for k, v in sizes.items())}; all must be above 0")
