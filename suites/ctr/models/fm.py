"""FM: factorization machines (Rendle 2010), and field-aware ones (Juan et al. 2016)."""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.nn import buffer
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Linear, pair_sum, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


@register("ctr_model")
class FM(CtrModel):
    """Logistic regression and the products of all pairs of fields' vectors.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
    """

    linear_column = True

    def __init__(self, fields: Fields, dim: int = 16) -> None:
        super().__init__(fields, width=1 + dim)
        require_one_label(self)
        self.linear = Linear(fields)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        weights, vectors = x.parts(self.width)
        return self.linear(weights, x.dense) + pair_sum(vectors)


@register("ctr_model")
class FFM(CtrModel):
    """A vector for each other field: the product of fields i and j is v[i, for j] . v[j, for i].

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector; a row of the table has 1 + F K.
    """

    linear_column = True

    def __init__(self, fields: Fields, dim: int = 4) -> None:
        count = len(fields.fields)
        super().__init__(fields, width=1 + count * dim)
        require_one_label(self)
        self.linear = Linear(fields)
        self._shape = (count, count, dim)
        self.pairs = buffer(np.triu(np.ones((count, count), np.float32), 1))  # [F, F], 1 where i < j

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        weights, flat = x.parts(self.width)
        vectors = ops.reshape(flat, shape=(-1, *self._shape))  # [N, F, for F, K]
        products = ops.sum(vectors * ops.transpose(vectors, perm=(0, 2, 1, 3)), axes=(3,))
        return self.linear(weights, x.dense) + ops.reshape(ops.sum(products * self.pairs, axes=(1, 2)), shape=(-1, 1))
