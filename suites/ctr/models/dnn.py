"""DNN: the fields' vectors side by side through hidden layers, the model of ElasticCTR."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


@register("ctr_model")
class DNN(CtrModel):
    """Hidden layers on vectors and dense features.

    ElasticCTR's `fleet-ctr/nets.py` has 26 slots with vectors of 9, pooled by sum, three layers of 400 and a softmax of
    two, whose difference is the logit here.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    def __init__(
        self,
        fields: Fields,
        dim: int = 9,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        self.mlp = Mlp(len(fields.fields) * dim + fields.dense, hidden, dropout, batch_norm)
        self.head = nn.Linear(self.mlp.out_features, 1)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        return self.head(self.mlp(joined(x.fields, x.dense)))
