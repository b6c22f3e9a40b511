"""Wide & Deep (Cheng et al. 2016) and DeepFM (Guo et al. 2017): a linear or factorized part beside hidden layers."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Linear, Mlp, joined, pair_sum, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


class _LinearAndDeep(CtrModel):
    """A linear part, and hidden layers on the vectors and dense features."""

    linear_column = True

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(fields, width=1 + dim)
        require_one_label(self)
        self.linear = Linear(fields)
        self.mlp = Mlp(len(fields.fields) * dim + fields.dense, hidden, dropout, batch_norm)
        self.head = nn.Linear(self.mlp.out_features, 1)

    def deep(self, vectors: Tensor, dense: Tensor | None) -> Tensor:
        """The hidden layers' logits [N, 1] of vectors [N, F, K] and dense features [N, C]."""
        return self.head(self.mlp(joined(vectors, dense)))


@register("ctr_model")
class WideDeep(_LinearAndDeep):
    """Logistic regression and hidden layers, trained together. Declare crossed features for the wide part.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        weights, vectors = x.parts(self.width)
        return self.linear(weights, x.dense) + self.deep(vectors, x.dense)


@register("ctr_model")
class DeepFM(_LinearAndDeep):
    """A factorization machine and hidden layers on the same vectors.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        weights, vectors = x.parts(self.width)
        return self.linear(weights, x.dense) + self.deep(vectors, x.dense) + pair_sum(vectors)
