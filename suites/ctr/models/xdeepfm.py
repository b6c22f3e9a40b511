"""xDeepFM: a compressed interaction network beside linear part and hidden layers (Lian et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Linear, Mlp, joined, require_one_label
from suites.ctr.schema import Fields
from suites.engine.registry import register


class CIN(nn.Layer):
    """X[k][h] = sum over i, j of W[k][h, i, j] (X[k - 1][i] * X[0][j]), summed over the K numbers of each vector.

    x: [N, F, K], y: [N, results]. Sums are linear, without an activation, as the paper found best.

    Args:
        fields: F.
        layers: H[k], feature maps of each layer.
        split_half: half of a layer's maps go on to the next layer, the other half to the result; of the last, all do.
    """

    def __init__(self, fields: int, layers: Sequence[int], split_half: bool = True) -> None:
        super().__init__()
        if split_half and any(maps % 2 for maps in layers[:-1]):
            raise AttributeValueError(f"CIN: layers are {list(layers)}; with split_half all but the last must be even")
        onward = [fields, *(maps // 2 if split_half else maps for maps in layers[:-1])]
        self.weights = nn.LayerList(
            nn.Linear(before * fields, maps, bias=False) for before, maps in zip(onward, layers, strict=True)
        )
        self._split = [maps // 2 if split_half else 0 for maps in layers[:-1]]
        self.out_features = sum(maps // 2 if split_half else maps for maps in layers[:-1]) + layers[-1]

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x0 = ops.expand_dims(ops.transpose(x, perm=(0, 2, 1)), axis=2)  # [N, K, 1, F]
        now, found = ops.transpose(x, perm=(0, 2, 1)), []  # [N, K, H]
        for place, layer in enumerate(self.weights):
            pairs = ops.flatten(ops.expand_dims(now, axis=3) * x0, start=2, end=3)  # [N, K, H F]
            now = layer(pairs)
            split = self._split[place] if place < len(self._split) else 0
            kept = now[:, :, split:] if split else now
            found.append(ops.sum(kept, axes=(1,)))
            now = now[:, :, :split] if split else now
        return ops.concat(found, axis=1)


@register("ctr_model")
class XDeepFM(CtrModel):
    """Linear part, compressed interactions and hidden layers.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        cin: feature maps of the layers of the compressed interaction network.
        split_half: see `CIN`.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
    """

    linear_column = True

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        cin: Sequence[int] = (128, 128),
        split_half: bool = True,
        hidden: Sequence[int] = (400, 400),
        dropout: float = 0.0,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(fields, width=1 + dim)
        require_one_label(self)
        count = len(fields.fields)
        self.linear = Linear(fields)
        self.cin = CIN(count, cin, split_half)
        self.mlp = Mlp(count * dim + fields.dense, hidden, dropout, batch_norm)
        self.head = nn.Linear(self.cin.out_features + self.mlp.out_features, 1)

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        weights, vectors = x.parts(self.width)
        parts = [self.cin(vectors), self.mlp(joined(vectors, x.dense))]
        return self.linear(weights, x.dense) + self.head(ops.concat(parts, axis=1))
