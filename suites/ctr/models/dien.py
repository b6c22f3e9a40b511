"""DIEN: deep interest evolution network (Zhou et al. 2019): a GRU over the history, then one whose gate attends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.control import scan
from framework.nn import init
from framework.tensors import Tensor, tensor
from suites.ctr.models.base import CtrModel, Embedded, Mlp, joined, require_one_label
from suites.ctr.models.behaviour import Histories, require_history
from suites.ctr.schema import Fields
from suites.engine.registry import register

_LOW = -1e9  # the score of a place behind the end of a history


class AUGRU(nn.Layer):
    """A GRU whose update gate is multiplied by an attention weight (section 4.2): u' = a u.

    u = sigmoid(Wu x + Uu h + bu), r = sigmoid(Wr x + Ur h + br), c = tanh(Wc x + r * (Uc h) + bc),
    h' = (1 - u') h + u' c.  A weight of 0 leaves the state as it is.

    Args:
        in_features: C.
        hidden: H.
    """

    weight_x: Tensor
    weight_h: Tensor
    bias: Tensor

    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        bound = hidden**-0.5
        self.add_parameter("weight_x", (3 * hidden, in_features), init.Uniform(-bound, bound))
        self.add_parameter("weight_h", (3 * hidden, hidden), init.Uniform(-bound, bound))
        self.add_parameter("bias", (3 * hidden,), init.Constant(0.0))
        self._hidden = hidden

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        """x: [L, N, C], weights: [L, N, 1]; the last state [N, H]."""
        size = self._hidden
        gates = ops.matmul(x, self.weight_x, self.bias, transpose_b=True)  # [L, N, 3 H]
        start = ops.full_like(gates[0, :, :size], value=0.0)

        def step(h: Tensor, row: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
            gate, weight = row
            own = ops.matmul(h, self.weight_h, transpose_b=True)
            u = ops.sigmoid(gate[:, :size] + own[:, :size]) * weight
            r = ops.sigmoid(gate[:, size : 2 * size] + own[:, size : 2 * size])
            c = ops.tanh(gate[:, 2 * size :] + r * own[:, 2 * size :])
            return h + u * (c - h), ()

        last, _ = scan(step, start, [gates, weights])
        return last


@register("ctr_model")
class DIEN(CtrModel):
    """Interests extracted by a GRU, their evolution towards the candidate by an AUGRU, through hidden layers.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: widths of the hidden layers.
        dropout: share of a layer's results set to 0 in training.
        auxiliary: weight of the auxiliary loss: the state after each value should fit the next value of the history and
            not another one. The others are the batch's values in reverse order.
    """

    uses_sequences = True

    def __init__(
        self,
        fields: Fields,
        dim: int = 16,
        hidden: Sequence[int] = (200, 80),
        dropout: float = 0.0,
        auxiliary: float = 1.0,
    ) -> None:
        super().__init__(fields, width=dim)
        require_one_label(self)
        self.histories = Histories(fields, dim)
        require_history(self, self.histories)
        self._used = [g for g, compared in enumerate(self.histories.compared) if compared]
        sizes = [self.histories.sizes[g] for g in self._used]
        self._lengths = [max(fields.max_lengths[place] for place in fields.groups[g]) for g in self._used]
        self.extractors = nn.LayerList(nn.GRU(size, size) for size in sizes)
        self.attentions = nn.LayerList(nn.Linear(size, size, bias=False) for size in sizes)
        self.evolutions = nn.LayerList(AUGRU(size, size) for size in sizes)
        self.mlp = Mlp(len(fields.fields) * dim + fields.dense + sum(sizes), hidden, dropout)
        self.head = nn.Linear(self.mlp.out_features, 1)
        self._auxiliary = auxiliary

    def forward(self, x: Embedded) -> Tensor:
        """Logits [N, 1]."""
        found = [self._evolved(x, place) for place in range(len(self._used))]
        return self.head(self.mlp(ops.concat([joined(x.fields, x.dense), *found], axis=1)))

    def _evolved(self, x: Embedded, place: int) -> Tensor:
        """The last state of the AUGRU of one history, [N, C]; zeros of an empty one."""
        values, offsets = self.histories.of(x, self._used[place])
        states, _ = self.extractors[place](values, offsets)
        steps, there = padded(states, offsets, self._lengths[place])
        target = self.attentions[place](self.histories.target(x, self._used[place]))  # [N, C]
        scores = ops.sum(steps * target, axes=(2,))  # [L, N]
        weights = ops.softmax(ops.where(there, scores, _LOW), axis=0) * ops.cast(there, "float32")
        return self.evolutions[place](steps, ops.expand_dims(weights, axis=2))

    def extra_losses(self, x: Embedded, labels: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """The auxiliary loss (section 4.1): -ln sigmoid(h_t . e_t+1) - ln(1 - sigmoid(h_t . another e))."""
        if not self._auxiliary:
            return {}
        found = {}
        for place, group in enumerate(self._used):
            values, offsets = self.histories.of(x, group)
            states, _ = self.extractors[place](values, offsets)
            last = ops.full_like(values[:1], value=0.0)
            following = ops.concat([values[1:], last], axis=0)
            with no_grad():
                segment = ops.ragged_segments(offsets, values)
                same = ops.cast(ops.equal(segment[1:], segment[:-1]), "float32")
                known = ops.concat([same, ops.full_like(last[:, 0], value=0.0)], axis=0)
                count = ops.sum(known)
            good = ops.sum(states * following, axes=(1,))
            bad = ops.sum(states * ops.flip(values, axes=[0]), axes=(1,))
            each = (ops.softplus(-good) + ops.softplus(bad)) * known
            mean = ops.sum(each) / ops.maximum(count, 1.0) * self._auxiliary
            found["auxiliary" + (f"_{place}" if place else "")] = mean, count
        return found


def padded(values: Tensor, offsets: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """[length, N, C] of values [T, C] laid end to end, zeros behind the ends; bool [length, N], where values are."""
    with no_grad():
        place = tensor(np.arange(length, dtype=np.int64)[:, None])
        there = ops.less(place, offsets[1:] - offsets[:-1])
        index = ops.where(there, offsets[:-1] + place, offsets[-1:])
    return ops.gather(ops.pad(values, pads=(0, 1, 0, 0)), index, axis=0), there
