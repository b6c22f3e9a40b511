"""TextCNN: convolutions of several widths along the text, and the largest value of each (Kim 2014)."""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.models.bow import WordDropout


@register("text_model")
class TextCNN(TextModel):
    """Word vectors, convolutions over windows of some widths with ReLU, the maximum over the text, a linear layer.

    Args:
        vocab_size: rows of the embedding.
        num_classes: K.
        width: D, of a word vector.
        filters: of each window width.
        windows: words that a filter sees.
        dropout: share of the features set to 0 in training.
        word_dropout: share of the word vectors set to 0 in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        width: int = 128,
        filters: int = 100,
        windows: tuple[int, ...] = (3, 4, 5),
        dropout: float = 0.5,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not windows or min(vocab_size, num_classes, width, filters, *windows) < 1:
            raise AttributeValueError(
                f"TextCNN: vocab_size is {vocab_size}, num_classes {num_classes}, width {width}, filters {filters} and "
                f"windows {list(windows)}; all must be 1 or more, and there must be a window"
            )
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.convolutions = nn.LayerList([RaggedConvolution(width, filters, window) for window in windows])
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = WordDropout(word_dropout)
        self.head = nn.Linear(filters * len(windows), num_classes)

    def forward(self, ids: Tensor, offsets: Tensor, segment_ids: Tensor | None = None) -> Tensor:
        """ids: [T], offsets: [B + 1]; logits [B, K]."""
        x = self.word_dropout(self.embedding(ids))
        features = [ops.segment_max(ops.relu(conv(x, offsets)), offsets)[0] for conv in self.convolutions]
        return self.head(self.dropout(ops.concat(features, axis=1)))


class RaggedConvolution(nn.Layer):
    """A convolution along each sequence, zeros beyond its ends.

    Args:
        in_features: D.
        out_features: K.
        window: rows that each output sees.
    """

    def __init__(self, in_features: int, out_features: int, window: int) -> None:
        super().__init__()
        self._before, self._after = (window - 1) // 2, window // 2
        self.linear = nn.Linear(in_features * window, out_features)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """x: [T, D], offsets: [B + 1]; y: [T, K]."""
        return self.linear(ops.ragged_window(x, offsets, before=self._before, after=self._after))
