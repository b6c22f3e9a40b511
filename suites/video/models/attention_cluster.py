"""Attention Cluster: many weighted means of a sequence, moved apart by a shift (Long et al. 2018, arXiv:1711.09550).

Letters: N sequences, T rows of all of them, C features of a row, U attention units, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.sequences import SequenceClassifier


class ShiftingAttention(nn.Layer):
    """U means of a sequence's rows, each with weights of its own, shifted and of length 1 / sqrt(U) (section 3.2).

    A unit weighs rows by softmax(row . w_u): attention whose queries are the parameters `queries` [U, C]. A bias of the
    score would cancel.

    Parameters: `queries`; `alpha`, `beta` [U, 1].

    Args:
        features: C.
        units: U.
    """

    queries: Tensor
    alpha: Tensor
    beta: Tensor

    def __init__(self, features: int, units: int) -> None:
        super().__init__()
        start = init.Normal(units**-0.25)
        self.units = units
        self.add_parameter("queries", (units, features), init.Kaiming(slope=1.0))
        self.add_parameter("alpha", (units, 1), start)
        self.add_parameter("beta", (units, 1), start)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """x: [T, C]; offsets: int64 [N + 1]; y: [N, U * C]."""
        ends = offsets[1:]
        zeros = ops.expand_dims(ops.full_like(ops.cast(ends, "float32"), value=0.0), axis=1)  # [N, 1]
        queries = ops.expand_dims(zeros, axis=2) + self.queries  # [N, U, C]
        rows = ops.flatten(queries, start=0, end=1)
        cuts = ops.full_like(offsets, value=self.units)
        starts = ops.cumsum(cuts, axis=0) - cuts  # each sequence has U queries
        means, _ = ops.ragged_attention(rows, x, x, starts, offsets, heads=1, scale=1.0)
        shifted = ops.reshape_like(means, queries) * self.alpha + self.beta
        return ops.flatten(nn.unit(shifted) * self.units**-0.5, start=1, end=2)


@register("video_classifier")
class AttentionCluster(SequenceClassifier):
    """A cluster of shifting attentions for each modality, then two layers with tanh.

    Args:
        modalities: what a row holds and how many numbers of it, such as {rgb: 1024, audio: 128}.
        num_classes: K.
        units: U of each modality.
        widths: of the two layers before the last.
        dropout: share of the joined means set to 0 in training.
    """

    def __init__(
        self,
        modalities: Mapping[str, int],
        num_classes: int,
        units: int | dict[str, int] = 32,
        widths: tuple[int, int] = (1024, 4096),
        dropout: float = 0.5,
    ) -> None:
        super().__init__(modalities, num_classes)
        each = dict.fromkeys(modalities, units) if isinstance(units, int) else units
        if each.keys() != modalities.keys() or min(each.values()) < 1:
            raise AttributeValueError(
                f"AttentionCluster: units is {units}; it must be 1 or more, or so for each of {list(modalities)}"
            )
        self.clusters = nn.LayerList([ShiftingAttention(size, each[name]) for name, size in modalities.items()])
        self.dropout = nn.Dropout(dropout)
        self.wide1 = nn.Linear(sum(size * each[name] for name, size in modalities.items()), widths[0])
        self.wide2 = nn.Linear(widths[0], widths[1])
        self.fc = nn.Linear(widths[1], num_classes)

    def forward(self, features: Mapping[str, Tensor], offsets: Tensor) -> Tensor:
        """features: [T, C] of each modality; offsets: int64 [N + 1]; logits [N, K]."""
        seen = [cluster(features[name], offsets) for name, cluster in zip(self.modalities, self.clusters, strict=True)]
        x = ops.tanh(self.wide1(self.dropout(ops.concat(seen, axis=1))))
        return self.fc(ops.tanh(self.wide2(x)))
