"""Attention LSTM: an LSTM a direction, and a weighted mean of what they say (Bian et al. 2017, arXiv:1708.03805).

Sizes are those of PaddlePaddle's model (models 1.8, PaddleCV/video/models/attention_lstm).

Letters: N sequences, T rows of all of them, C features of a row, D hidden units, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.sequences import SequenceClassifier, segment_softmax


class _Modality(nn.Layer):
    """[T, C] to one vector [N, 2 D] a sequence."""

    def __init__(self, features: int, embedding: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Linear(features, embedding)
        self.lstm = nn.LSTM(embedding, hidden, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.score = nn.Linear(2 * hidden, 1)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        y = self.dropout(self.lstm(ops.tanh(self.embed(x)), offsets)[0])
        return ops.segment_sum(y * segment_softmax(self.score(y), offsets), offsets)


@register("video_classifier")
class AttentionLSTM(SequenceClassifier):
    """A bidirectional LSTM for each modality, attention over time, two wide layers.

    Args:
        modalities: what a row holds and how many numbers of it, such as {rgb: 1024, audio: 128}.
        num_classes: K.
        embedding: width of the layer before the LSTM.
        hidden: D, of each direction.
        widths: of the two layers before the last.
        dropout: share of the LSTM's output set to 0 in training.
    """

    def __init__(
        self,
        modalities: Mapping[str, int],
        num_classes: int,
        embedding: int = 512,
        hidden: int = 1024,
        widths: tuple[int, int] = (8192, 4096),
        dropout: float = 0.5,
    ) -> None:
        super().__init__(modalities, num_classes)
        self.streams = nn.LayerList([_Modality(size, embedding, hidden, dropout) for size in modalities.values()])
        self.wide1 = nn.Linear(2 * hidden * len(modalities), widths[0])
        self.wide2 = nn.Linear(widths[0], widths[1])
        self.fc = nn.Linear(widths[1], num_classes)

    def forward(self, features: Mapping[str, Tensor], offsets: Tensor) -> Tensor:
        """features: [T, C] of each modality; offsets: int64 [N + 1]; logits [N, K]."""
        seen = [stream(features[name], offsets) for name, stream in zip(self.modalities, self.streams, strict=True)]
        x = ops.relu(self.wide1(ops.concat(seen, axis=1)))
        return self.fc(ops.tanh(self.wide2(x)))
