"""LR: logistic regression on sparse features, the baseline of McMahan et al. (2013)."""

from __future__ import annotations

from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Linear, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


@register("ctr_model")
class LR(CtrModel):
    """A weight a sign, and one a dense feature.

    Args:
        fields: what the batches hold.
    """

    linear_column = True

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields, width=1)
        require_one_label(self)
        self.linear = Linear(fields)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        return self.linear(x.fields, x.dense)
