"""What models of behaviour share: attention to a history, and which histories are compared with what.

Letters: N rows, T values of a history laid end to end, C numbers of a value (of all sequences that go together).
"""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp
from suites.ctr.schema import Fields


class AttentionUnit(nn.Layer):
    """The weight of each value of a history for a target, from both, their difference and product.

    Args:
        size: C.
        hidden: widths of its hidden layers, each with Dice.
    """

    def __init__(self, size: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.mlp = Mlp(4 * size, hidden, activation="dice")
        self.head = nn.Linear(self.mlp.out_features, 1)

    def forward(self, history: Tensor, target: Tensor) -> Tensor:
        """history, target: [T, C], target that of each value's row; weights [T, 1] without a bound."""
        both = ops.concat([history, target, history - target, history * target], axis=1)
        return self.head(self.mlp(both))


class Histories(nn.Layer):
    """The groups of sequences of a schema: each with what it is compared with.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.

    Attributes:
        sizes: C of each group.
        compared: of each group, whether all of its sequences have a field of their vocabulary.
    """

    def __init__(self, fields: Fields, dim: int) -> None:
        super().__init__()
        self._groups = [[fields.sequences[place] for place in group] for group in fields.groups]
        self.sizes = [len(group) * dim for group in self._groups]
        self.compared = [all(at >= 0 for _, at in group) for group in self._groups]

    def of(self, x: Embedded, group: int) -> tuple[Tensor, Tensor]:
        """Values [T, C] and offsets [N + 1] of a group."""
        members = [x.sequences[name] for name, _ in self._groups[group]]
        return ops.concat([values for values, _ in members], axis=1), members[0][1]

    def target(self, x: Embedded, group: int) -> Tensor:
        """What a group is compared with, [N, C]."""
        places = [at for _, at in self._groups[group]]
        cut = [x.fields[:, at : at + 1] for at in places]
        return ops.concat([ops.squeeze(each, axis=1) for each in cut], axis=1)


def require_history(model: CtrModel, histories: Histories) -> None:
    """Raise ConfigError where no sequence can be compared with a field."""
    if not any(histories.compared):
        raise ConfigError(
            f"{type(model).__name__}: the schema has no sequence with the vocabulary of a sparse feature, so there is "
            "no history to compare with; declare one as {type: Sequence, vocabulary: ITEM}, or take another model"
        )
