"""Several labels at once: MMoE, a mixture of experts (Ma et al., KDD 2018), and ESMM (Ma et al., SIGIR 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined
from suites.ctr.schema import Fields
from suites.engine.registry import register

_ALMOST = -1e-6  # the largest logarithm of a probability whose complement float32 still tells from 0


@register("ctr_model")
class MMoE(CtrModel):
    """Experts that all labels share; a gate of each label mixes them for its tower.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        experts: how many.
        expert_hidden: widths of an expert's hidden layers.
        tower_hidden: widths of a tower's hidden layers; empty for a linear one.
        dropout: share of a layer's results set to 0 in training.
    """

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        experts: int = 4,
        expert_hidden: Sequence[int] = (128, 64),
        tower_hidden: Sequence[int] = (32,),
        dropout: float = 0.0,
    ) -> None:
        super().__init__(fields, width=dim)
        if experts < 1 or not expert_hidden:
            raise AttributeValueError(
                f"MMoE: experts is {experts} and expert_hidden {list(expert_hidden)}; needed is one"
            )
        inputs = len(fields.fields) * dim + fields.dense
        self.experts = nn.LayerList(Mlp(inputs, expert_hidden, dropout) for _ in range(experts))
        self.gates = nn.LayerList(nn.Linear(inputs, experts, bias=False) for _ in fields.labels)
        self.towers = nn.LayerList(Mlp(expert_hidden[-1], tower_hidden, dropout) for _ in fields.labels)
        self.heads = nn.LayerList(nn.Linear([expert_hidden[-1], *tower_hidden][-1], 1) for _ in self.towers)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, L]."""
        inputs = joined(x.fields, x.dense)
        found = ops.concat([ops.expand_dims(expert(inputs), axis=1) for expert in self.experts], axis=1)  # [N, E, H]
        logits = []
        for gate, tower, head in zip(self.gates, self.towers, self.heads, strict=True):
            shares = ops.expand_dims(ops.softmax(gate(inputs), axis=1), axis=2)  # [N, E, 1]
            logits.append(head(tower(ops.sum(found * shares, axes=(1,)))))
        return ops.concat(logits, axis=1)


@register("ctr_model")
class ESMM(CtrModel):
    """Click, and click with conversion: P(both) = P(click) P(conversion | click), over all impressions.

    The schema's first label is the click, its second is click and conversion.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: widths of the hidden layers of each of the two networks, which share the vectors.
        dropout: share of a layer's results set to 0 in training.
    """

    def __init__(self, fields: Fields, dim: int = 16, hidden: Sequence[int] = (200, 80), dropout: float = 0.0) -> None:
        super().__init__(fields, width=dim)
        if len(fields.labels) != 2:
            raise ConfigError(
                f"ESMM: the schema has {len(fields.labels)} labels; it takes two, the click, and click and conversion"
            )
        inputs = len(fields.fields) * dim + fields.dense
        self.networks = nn.LayerList(Mlp(inputs, hidden, dropout) for _ in range(2))
        self.heads = nn.LayerList(nn.Linear([inputs, *hidden][-1], 1) for _ in range(2))

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 2] of click, and of click and conversion."""
        inputs = joined(x.fields, x.dense)
        click, conversion = (head(net(inputs)) for net, head in zip(self.networks, self.heads, strict=True))
        both = ops.minimum(ops.log_sigmoid(click) + ops.log_sigmoid(conversion), _ALMOST)  # ln P
        return ops.concat([click, both - ops.log(-ops.expm1(both))], axis=1)
