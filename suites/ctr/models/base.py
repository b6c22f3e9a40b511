"""CtrModel: what every model of click-through rates is to the task; Embedded: what it is given.

Letters: N rows, F fields, K numbers of a field's vector, T values of a sequence feature laid end to end, D dense
features, L labels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from framework import nn, ops
from framework.errors import AttributeValueError, ConfigError
from framework.nn import init
from framework.tensors import Tensor
from suites.ctr.models.dice import Dice
from suites.ctr.schema import Fields
from suites.engine.registry import register_role


@dataclass(frozen=True)
class Embedded:
    """A batch whose signs have become rows of the table.

    Attributes:
        fields: float32 [N, F, R], a row of the table a field; of multi-valued fields the pooled rows.
        dense: float32 [N, D], or None where D is 0.
        sequences: by name, rows float32 [T, R] and offsets int64 [N + 1].
    """

    fields: Tensor
    dense: Tensor | None = None
    sequences: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def parts(self, width: int) -> tuple[Tensor, Tensor]:
        """The weight [N, F, 1] and the vector [N, F, width - 1] of every field's row."""
        weights, vectors = ops.split(self.fields, sizes=[1, width - 1], axis=2)
        return weights, vectors


class CtrModel(nn.Layer):
    """A network on the rows of a batch: `model(embedded)` gives logits [N, L].

    Attributes:
        width: R, numbers of a row of the table that the model wants; it cuts them into its parts.
        fields: what the batches hold.
        uses_sequences: whether it reads them; else they are not looked up.
        linear_column: whether the first number of a row is the weight of a linear part.
        task: the name under which the task that trains it is registered.
    """

    task: ClassVar[str] = "ctr"
    width: int
    uses_sequences: bool = False
    linear_column: bool = False

    def __init__(self, fields: Fields, width: int) -> None:
        super().__init__()
        if width < 1:
            raise AttributeValueError(f"{type(self).__name__}: a row has {width} numbers; dim must be 1 or more")
        self.fields, self.width = fields, width

    @abstractmethod
    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, L]."""

    def extra_losses(self, x: Embedded, labels: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Further terms that are minimised, (mean, what it is a mean over) by name; by default none."""
        return {}


register_role("ctr_model", CtrModel, supplied=("fields",), doc="A network on the embedded rows of a click log.")


class Linear(nn.Layer):
    """The linear part: the sum of the fields' weights, and of weights times dense features.  y: [N, 1].

    Args:
        fields: what the batches hold.
    """

    bias: Tensor

    def __init__(self, fields: Fields) -> None:
        super().__init__()
        self.dense = nn.Linear(fields.dense, 1) if fields.dense else None
        if not fields.dense:
            self.add_parameter("bias", (1,), init.Constant(0.0))

    def forward(self, weights: Tensor, dense: Tensor | None) -> Tensor:
        """The logit of a logistic regression; weights: [N, F, 1], dense: [N, D]."""
        y = ops.sum(weights, axes=(1,))
        return y + (self.dense(dense) if self.dense is not None else self.bias)


class Mlp(nn.Layer):
    """Hidden layers, each with activation and dropout.  x: [N, C], y: [N, last of hidden].

    Args:
        in_features: C.
        hidden: widths of the layers.
        dropout: share of a layer's results set to 0 in training.
        batch_norm: normalise before each activation.
        activation: its name in `nn.ACTIVATIONS`, or "dice".
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        dropout: float = 0.0,
        batch_norm: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        widths = [in_features, *hidden]
        if min(widths) < 1:
            raise AttributeValueError(f"Mlp: the widths are {widths}; all must be 1 or more")
        self.layers = nn.LayerList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.norms = nn.LayerList(nn.BatchNorm(b) for b in hidden) if batch_norm else None
        self.drop = nn.Dropout(dropout)
        self.activations = nn.LayerList(Dice(b) if activation == "dice" else nn.Activation(activation) for b in hidden)
        self.out_features = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        for place, layer in enumerate(self.layers):
            x = layer(x)
            if self.norms is not None:
                x = self.norms[place](x)
            x = self.drop(self.activations[place](x))
        return x


def joined(vectors: Tensor, dense: Tensor | None) -> Tensor:
    """Fields' vectors [N, F, K] and dense features side by side, [N, F K + D]."""
    flat = ops.flatten(vectors, start=1)
    return flat if dense is None else ops.concat([flat, dense], axis=1)


def pair_sum(vectors: Tensor) -> Tensor:
    """The sum of the products of all pairs of fields, [N, 1] of [N, F, K] (Rendle 2010, lemma 3.1)."""
    total = ops.sum(vectors, axes=(1,))
    squares = ops.sum(ops.square(vectors), axes=(1,))
    return ops.sum(ops.square(total) - squares, axes=(1,), keepdims=True) * 0.5


def require_one_label(model: CtrModel) -> None:
    """Raise ConfigError for a schema with several labels, which this model does not predict."""
    if len(model.fields.labels) != 1:
        raise ConfigError(
            f"{type(model).__name__}: the schema has {len(model.fields.labels)} labels; this model predicts one. Take "
            "MMoE or ESMM, or remove labels from data.schema"
        )
