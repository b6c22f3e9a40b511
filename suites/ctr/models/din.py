"""DIN: deep interest network, attention of a candidate to a user's history (Zhou et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined, require_one_label
from suites.ctr.models.behaviour import AttentionUnit, Histories, require_history
from suites.ctr.schema import Fields
from suites.engine.registry import register


@register("ctr_model")
class DIN(CtrModel):
    """Histories pooled by attention beside the fields' vectors, through hidden layers.

    The weights of a history are not normalised, as in the paper: a history with more of what fits weighs more.
    Sequences that are compared with nothing are pooled by their mean. An empty history is a vector of zeros.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        attention: widths of the hidden layers of the attention.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        dice: hidden layers with Dice in place of relu.
    """

    uses_sequences = True

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        attention: Sequence[int] = (64, 32),
        hidden: Sequence[int] = (200, 80),
        dropout: float = 0.0,
        dice: bool = False,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        self.histories = Histories(fields, dim)
        require_history(self, self.histories)
        sizes, compared = self.histories.sizes, self.histories.compared
        self.units = nn.LayerList(AttentionUnit(s, attention) for s, c in zip(sizes, compared, strict=True) if c)
        kind = "dice" if dice else "relu"
        self.mlp = Mlp(len(fields.fields) * dim + fields.dense + sum(sizes), hidden, dropout, activation=kind)
        self.head = nn.Linear(self.mlp.out_features, 1)

    def interests(self, x: Embedded) -> list[Tensor]:
        """The pooled histories, [N, C] of each group."""
        found, units = [], iter(self.units)
        for group, compared in enumerate(self.histories.compared):
            values, offsets = self.histories.of(x, group)
            if compared:
                target = ops.segment_spread(self.histories.target(x, group), offsets, values)
                found.append(ops.segment_sum(next(units)(values, target) * values, offsets))
            else:
                found.append(ops.segment_mean(values, offsets))
        return found

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        return self.head(self.mlp(ops.concat([joined(x.fields, x.dense), *self.interests(x)], axis=1)))
