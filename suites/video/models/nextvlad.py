"""NeXtVLAD: what is left of grouped features beside cluster centres, summed up (Lin et al. 2018, arXiv:1811.05014).

Letters: N sequences, T rows of all of them, C features of a row, E times the width, G groups, M clusters,
F = E * C / G features of a group, D hidden units, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.sequences import SequenceClassifier

_MSRA = init.Kaiming()


class NeXtVLADLayer(nn.Layer):
    """[T, C] to one vector [N, M * F] a sequence (section 3.2): residuals of each group to soft clusters, gated.

    Each cluster's sum is of length 1, then all numbers go through a batch norm, as in PaddlePaddle's model.

    Parameters: `expand`, `gate`, `clusters`, `norm`, `centres` [M, F], `last_norm`.

    Args:
        features: C.
        clusters: M.
        groups: G.
        expansion: E.
    """

    centres: Tensor

    def __init__(self, features: int, clusters: int = 128, groups: int = 8, expansion: int = 2) -> None:
        super().__init__()
        wide = expansion * features
        if min(clusters, groups, expansion) < 1 or wide % groups:
            raise AttributeValueError(
                f"NeXtVLAD: {groups} groups must divide {expansion} times {features} features, and all be 1 or more"
            )
        self.size = clusters * wide // groups
        self._groups, self._width = groups, wide // groups
        self.expand = nn.Linear(features, wide, initializer=_MSRA)
        self.gate = nn.Linear(wide, groups, initializer=_MSRA)
        self.clusters = nn.Linear(wide, groups * clusters, bias=False, initializer=_MSRA)
        self.norm = nn.BatchNorm(groups * clusters)
        self.add_parameter("centres", (clusters, wide // groups), _MSRA)
        self.last_norm = nn.BatchNorm(self.size)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """x: [T, C]; offsets: int64 [N + 1]; y: [N, M * F]."""
        x = self.expand(x)
        gates = ops.sigmoid(self.gate(x))  # [T, G]
        scores = ops.reshape(self.norm(self.clusters(x)), shape=(0, self._groups, -1))
        shares = ops.softmax(scores, axis=2) * ops.expand_dims(gates, axis=2)  # [T, G, M]
        rows = ops.flatten(shares, start=0, end=1)  # a sequence of n rows is one of n * G groups from here on
        groups = ops.reshape(x, shape=(-1, self._width))
        cuts = offsets * self._groups
        sums = ops.segment_outer(rows, groups, cuts)  # [N, M, F]
        weight = ops.expand_dims(ops.segment_sum(rows, cuts), axis=2)  # [N, M, 1]
        residuals = nn.unit(sums - weight * self.centres)
        return self.last_norm(ops.flatten(residuals, start=1, end=2))


@register("video_classifier")
class NeXtVLAD(SequenceClassifier):
    """A NeXtVLAD layer for each modality, a narrow layer, a context gate, a logistic layer (figure 2).

    Args:
        modalities: what a row holds and how many numbers of it, such as {rgb: 1024, audio: 128}.
        num_classes: K.
        clusters: M.
        groups: G.
        expansion: E.
        hidden: D.
        gate_width: of the context gate's first layer.
        dropout: share of the joined vectors set to 0 in training.
    """

    def __init__(
        self,
        modalities: Mapping[str, int],
        num_classes: int,
        clusters: int = 128,
        groups: int = 8,
        expansion: int = 2,
        hidden: int = 2048,
        gate_width: int = 256,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(modalities, num_classes)
        self.vlads = nn.LayerList([NeXtVLADLayer(size, clusters, groups, expansion) for size in modalities.values()])
        self.dropout = nn.Dropout(dropout)
        total = sum(vlad.size for vlad in self.vlads if isinstance(vlad, NeXtVLADLayer))
        self.hidden = nn.Linear(total, hidden, bias=False, initializer=_MSRA)
        self.hidden_norm = nn.BatchNorm(hidden)
        self.gate1 = nn.Linear(hidden, gate_width, bias=False, initializer=_MSRA)
        self.gate_norm = nn.BatchNorm(gate_width)
        self.gate2 = nn.Linear(gate_width, hidden, initializer=_MSRA)
        self.fc = nn.Linear(hidden, num_classes, initializer=_MSRA)

    def forward(self, features: Mapping[str, Tensor], offsets: Tensor) -> Tensor:
        """features: [T, C] of each modality; offsets: int64 [N + 1]; logits [N, K]."""
        seen = [vlad(features[name], offsets) for name, vlad in zip(self.modalities, self.vlads, strict=True)]
        x = self.hidden_norm(self.hidden(self.dropout(ops.concat(seen, axis=1))))
        gate = ops.sigmoid(self.gate2(ops.relu(self.gate_norm(self.gate1(x)))))
        return self.fc(x * gate)
