"""DCN: cross layers with a vector (Wang et al. 2017), and with a matrix (DCN-V2, Wang et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


@register("ctr_model")
class DCN(CtrModel):
    """x[l + 1] = x0 (w[l] . x[l]) + b[l] + x[l], beside hidden layers.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        cross_layers: how many cross layers.
        hidden: widths of the hidden layers; empty for the cross layers alone.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        cross_layers: int = 3,
        hidden: Sequence[int] = (400, 400, 400),
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        size = len(fields.fields) * dim + fields.dense
        self.mlp = Mlp(size, hidden, dropout, batch_norm) if hidden else None
        self.head = nn.Linear(size if self.mlp is None else size + self.mlp.out_features, 1)
        self._layers = cross_layers
        for layer in range(cross_layers):
            self.add_parameter(f"w{layer}", (1, size), init.Xavier("uniform"))
            self.add_parameter(f"b{layer}", (size,), init.Constant(0.0))

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        x0 = joined(x.fields, x.dense)
        crossed = self.crossed(x0)
        return self.head(crossed if self.mlp is None else ops.concat([crossed, self.mlp(x0)], axis=1))

    def crossed(self, x0: Tensor) -> Tensor:
        """The cross layers' result [N, C] of the inputs [N, C]."""
        x = x0
        for layer in range(self._layers):
            x = x0 * ops.matmul(x, getattr(self, f"w{layer}"), transpose_b=True) + getattr(self, f"b{layer}") + x
        return x


@register("ctr_model")
class DCNv2(CtrModel):
    """x[l + 1] = x0 * (W[l] x[l] + b[l]) + x[l], with W whole or of low rank (U V).

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        cross_layers: how many cross layers.
        rank: of W; null for whole matrices.
        hidden: widths of the hidden layers; empty for the cross layers alone.
        structure: hidden layers on the cross layers' result ("stacked") or beside them ("parallel").
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        cross_layers: int = 3,
        rank: int | None = None,
        hidden: Sequence[int] = (400, 400, 400),
        structure: Literal["stacked", "parallel"] = "parallel",
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        if rank is not None and rank < 1:
            raise AttributeValueError(f"DCNv2: rank is {rank}; it must be 1 or more, or null")
        size = len(fields.fields) * dim + fields.dense
        self.mlp = Mlp(size, hidden, dropout, batch_norm) if hidden else None
        self._stacked = structure == "stacked"
        deep = 0 if self.mlp is None else self.mlp.out_features
        self.head = nn.Linear(deep if self._stacked and deep else size + deep, 1)
        self.down = nn.LayerList(nn.Linear(size, rank, bias=False) for _ in range(cross_layers)) if rank else None
        self.crosses = nn.LayerList(nn.Linear(rank or size, size) for _ in range(cross_layers))

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        x0 = joined(x.fields, x.dense)
        crossed = self.crossed(x0)
        if self.mlp is None:
            return self.head(crossed)
        if self._stacked:
            return self.head(self.mlp(crossed))
        return self.head(ops.concat([crossed, self.mlp(x0)], axis=1))

    def crossed(self, x0: Tensor) -> Tensor:
        """The cross layers' result [N, C] of the inputs [N, C]."""
        x = x0
        for place, layer in enumerate(self.crosses):
            x = x0 * layer(x if self.down is None else self.down[place](x)) + x
        return x
