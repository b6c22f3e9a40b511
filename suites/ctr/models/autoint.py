"""AutoInt: self-attention over fields (Song et al. 2019), with hidden layers beside it as AutoInt+."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


class Interacting(nn.Layer):
    """One layer: relu(concat over heads of softmax(q k^T) v + W x).  x: [N, F, C], y: [N, F, heads * size].

    Args:
        in_features: C.
        heads: how many.
        size: numbers of a head.
    """

    def __init__(self, in_features: int, heads: int, size: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.residual = (
            nn.Linear(in_features, heads * size, bias=False) for _ in range(4)
        )
        self._heads, self._size = heads, size

    def _cut(self, x: Tensor) -> Tensor:
        """[N, heads, F, size]."""
        return ops.transpose(ops.reshape(x, shape=(0, 0, self._heads, self._size)), perm=(0, 2, 1, 3))

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        scores = ops.matmul(self._cut(self.query(x)), self._cut(self.key(x)), transpose_b=True)
        found = ops.matmul(ops.softmax(scores, axis=-1), self._cut(self.value(x)))
        found = ops.reshape(ops.transpose(found, perm=(0, 2, 1, 3)), shape=(0, 0, self._heads * self._size))
        return ops.relu(found + self.residual(x))


@register("ctr_model")
class AutoInt(CtrModel):
    """Layers of attention over the fields, dense features among them: each is its value times a vector.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        layers: how many layers of attention.
        heads: of each.
        size: numbers of a head.
        hidden: widths of hidden layers beside the attention; empty for none.
        dropout: share of a hidden layer's results set to 0 in training.
    """

    dense_vectors: Tensor

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        layers: int = 3,
        heads: int = 2,
        size: int = 16,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        if layers < 1:
            raise AttributeValueError(f"AutoInt: layers is {layers}; it must be 1 or more")
        if fields.dense:
            self.add_parameter("dense_vectors", (fields.dense, dim), init.Normal(0.01))
        widths = [dim, *[heads * size] * layers]
        self.layers = nn.LayerList(Interacting(width, heads, size) for width in widths[:-1])
        count = len(fields.fields) + fields.dense
        self.mlp = Mlp(len(fields.fields) * dim + fields.dense, hidden, dropout) if hidden else None
        self.head = nn.Linear(count * heads * size + (self.mlp.out_features if self.mlp is not None else 0), 1)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        now = x.fields
        if x.dense is not None:
            now = ops.concat([now, ops.expand_dims(x.dense, axis=2) * self.dense_vectors], axis=1)
        for layer in self.layers:
            now = layer(now)
        parts = [ops.flatten(now, start=1)]
        if self.mlp is not None:
            parts.append(self.mlp(joined(x.fields, x.dense)))
        return self.head(ops.concat(parts, axis=1))
