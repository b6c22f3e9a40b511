"""Retrieval: which items may come next, by a vector of the user and one of each item. GRU4Rec and SSR.

Letters: N rows, T values of a history laid end to end, K numbers of a vector, H of what is compared, M items.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded, require_one_label
from suites.ctr.models.dien import padded
from suites.ctr.schema import Fields
from suites.engine.registry import register

_SELF = -1e9  # the score of an item beside itself, which counts for nothing


class RetrievalModel(CtrModel):
    """A user's vector from the first history of the schema, an item's from the row of the field compared with it.

    Rows whose label is 1 are learned from; the items of all rows of a batch stand in for those that were not chosen.

    Args:
        fields: what the batches hold.
        width: of a row of the table.
        logq: correct for how often an item is among those of a batch (Bengio and Senécal 2008; Yi et al. 2019);
            without, popular items are pushed down.

    Attributes:
        item: the place of the item among the fields.
        history: the name of the sequence.
        logq: see above.
    """

    task = "retrieval"
    uses_sequences = True

    def __init__(self, fields: Fields, width: int, logq: bool = False) -> None:
        super().__init__(fields, width)
        self.logq = logq
        require_one_label(self)
        single = len(fields.fields) - len(fields.bags)  # multi-valued fields stand last
        if not fields.sequences or not 0 <= fields.sequences[0][1] < single:
            raise ConfigError(
                f"{type(self).__name__}: the first sequence of the schema must have the vocabulary of a sparse "
                "feature, the item; declare it as {type: Sequence, vocabulary: ITEM}"
            )
        self.history, self.item = fields.sequences[0]

    @abstractmethod
    def users(self, x: Embedded) -> Tensor:
        """Vectors of the rows' users, [N, H]."""

    @abstractmethod
    def items(self, rows: Tensor) -> Tensor:
        """Vectors of items, [M, H] of their rows of the table [M, R]; the product with a user's is the score."""

    @abstractmethod
    def losses(self, x: Embedded, labels: Tensor, log_shares: Tensor | None = None) -> dict[str, tuple[Tensor, Tensor]]:
        """What is minimised: (mean, what it is a mean over) by name.

        Args:
            x: the batch.
            labels: [N, 1].
            log_shares: [N], ln of the share of training rows that have the row's item; None without `logq`.
        """

    def chosen(self, x: Embedded) -> Tensor:
        """The rows of the batch's items, [N, R]."""
        return x.fields[:, self.item]

    def forward(self, x: Embedded) -> Tensor:
        """The score of each row's item for its user, [N, 1]."""
        return ops.sum(self.users(x) * self.items(self.chosen(x)), axes=(1,), keepdims=True)


def mean_of_clicked(each: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of [N] over rows whose label [N, 1] is 1, 0 where there is none; and their number."""
    clicked = labels[:, 0]
    with no_grad():
        count = ops.sum(clicked)
    return ops.sum(each * clicked) / ops.maximum(count, 1.0), count


def _others(scores: Tensor) -> Tensor:
    """bool [N, N]: true where an item stands beside another row's user."""
    with no_grad():
        number = ops.positions(scores, axis=0)
        return ops.not_equal(ops.expand_dims(number, axis=1), ops.expand_dims(number, axis=0))


def cross_entropy(scores: Tensor, own: Tensor, log_shares: Tensor | None = None) -> Tensor:
    """-ln of the share of a row's own item among all items of the batch, [N] of [N, N] and [N].

    With `log_shares` [N] each score is less the logarithm of its item's share (Yi et al. 2019, section 3).
    """
    if log_shares is not None:
        scores, own = _corrected(scores, log_shares), own - log_shares
    return ops.logsumexp(scores, axes=(1,)) - own


def bpr(scores: Tensor, own: Tensor, log_shares: Tensor | None = None) -> Tensor:
    """Mean over the other items of -ln sigmoid(own - other), [N] (Rendle et al. 2009).

    With `log_shares` [N] others weigh 1 / their share, so that it is the mean over a catalogue drawn from evenly.
    """
    others = ops.cast(_others(scores), "float32")
    each = ops.softplus(scores - ops.expand_dims(own, axis=1)) * others
    if log_shares is not None:
        even = _corrected(ops.full_like(scores, value=0.0), log_shares)
        return ops.sum(ops.softmax(ops.where(_others(scores), even, _SELF), axis=1) * each, axes=(1,))
    return ops.sum(each, axes=(1,)) / ops.maximum(ops.sum(others, axes=(1,)), 1.0)


def _corrected(scores: Tensor, log_shares: Tensor) -> Tensor:
    """Scores [N, N] less the logarithms of the items' shares [N]."""
    return scores - ops.expand_dims(log_shares, axis=0)


def top1_max(scores: Tensor, own: Tensor, log_shares: Tensor | None = None) -> Tensor:
    """Sum of softmax(others) (sigmoid(other - own) + sigmoid(other^2)), [N] (Hidasi and Karatzoglou 2018, eq. 9).

    With `log_shares` [N] the softmax is of scores less the logarithms of the items' shares.
    """
    weighed = scores if log_shares is None else _corrected(scores, log_shares)
    weights = ops.softmax(ops.where(_others(scores), weighed, _SELF), axis=1)
    each = ops.sigmoid(scores - ops.expand_dims(own, axis=1)) + ops.sigmoid(ops.square(scores))
    return ops.sum(weights * each * ops.cast(_others(scores), "float32"), axes=(1,))


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "cross_entropy": cross_entropy,
    "bpr": bpr,
    "top1_max": top1_max,
}


@register("ctr_model")
class GRU4Rec(RetrievalModel):
    """The state of a GRU over the session scores items by a product, plus a number of each item (Hidasi et al. 2016).

    The same vectors go in and are compared with, the "constrained embedding" of Hidasi and Karatzoglou (2018).

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector and of the GRU's state.
        loss: over the items of the batch: "cross_entropy", "bpr" or "top1_max".
        dropout: share of the values' numbers set to 0 in training.
        logq: see `RetrievalModel`.
    """

    linear_column = True

    def __init__(
        self,
        fields: Fields,
        dim: int = 100,
        loss: Literal["cross_entropy", "bpr", "top1_max"] = "cross_entropy",
        dropout: float = 0.0,
        logq: bool = False,
    ) -> None:
        super().__init__(fields, width=1 + dim, logq=logq)
        self.gru = nn.GRU(dim, dim)
        self.drop = nn.Dropout(dropout)
        self._loss = LOSSES[loss]

    def users(self, x: Embedded) -> Tensor:
        """The last state and a 1, [N, K + 1]; of an empty session the state is 0."""
        values, offsets = x.sequences[self.history]
        _, last = self.gru(self.drop(values[:, 1:]), offsets)
        return ops.concat([last[0], ops.full_like(last[0, :, :1], value=1.0)], axis=1)

    def items(self, rows: Tensor) -> Tensor:
        """Vector and number of each item, [M, K + 1]."""
        return ops.concat([rows[:, 1:], rows[:, :1]], axis=1)

    def losses(self, x: Embedded, labels: Tensor, log_shares: Tensor | None = None) -> dict[str, tuple[Tensor, Tensor]]:
        """See the class."""
        users, items = self.users(x), self.items(self.chosen(x))
        scores = ops.matmul(users, items, transpose_b=True)
        own = ops.sum(users * items, axes=(1,))
        return {"ranking": mean_of_clicked(self._loss(scores, own, log_shares), labels)}


@register("ctr_model", needs={"margin": ("loss", "hinge"), "scale": ("loss", "cross_entropy")})
class SSR(RetrievalModel):
    """Semantic matching of a session and an item by their cosine (Song, Elkahky and He 2016), as Paddle has it.

    The user is the maximum over the states of a GRU, through a linear layer; the item its vector through another.

    Args:
        fields: what the batches hold.
        dim: K, numbers of a vector.
        hidden: H, of the GRU and of what is compared.
        margin: see `loss`; with "hinge".
        logq: see `RetrievalModel`; in the hinge the other items weigh 1 / their share.
        loss: "hinge" wants the cosine of the chosen item `margin` above that of one other, the batch's items in reverse
            order, as Paddle has it. "cross_entropy" is the paper's: the share of the chosen item among all of the
            batch, by the softmax of `scale` times the cosines (Huang et al. 2013, equation 4).
        scale: see `loss`; with "cross_entropy".
    """

    def __init__(
        self,
        fields: Fields,
        dim: int = 64,
        hidden: int = 64,
        margin: float = 0.8,
        logq: bool = False,
        loss: Literal["hinge", "cross_entropy"] = "hinge",
        scale: float = 10.0,
    ) -> None:
        super().__init__(fields, width=dim, logq=logq)
        for name, value in (("margin", margin), ("scale", scale)):
            if not value > 0:
                raise AttributeValueError(f"SSR: {name} is {value}; it must be above 0")
        self.gru = nn.GRU(dim, hidden)
        self.user, self.own = nn.Linear(hidden, hidden), nn.Linear(dim, hidden)
        self._margin, self._length = margin, fields.max_lengths[0]
        self._loss, self._scale = loss, scale

    def users(self, x: Embedded) -> Tensor:
        """Vectors of length 1, [N, H]; an empty session is the linear layer's bias."""
        values, offsets = x.sequences[self.history]
        states, _ = self.gru(values, offsets)
        steps, there = padded(states, offsets, self._length)  # [L, N, H], bool [L, N]
        largest = ops.max(ops.where(ops.expand_dims(there, axis=2), steps, -1.0), axes=(0,))  # states are above -1
        some = ops.cast(ops.any(there, axes=(0,)), "float32")
        return _unit(self.user(largest * ops.expand_dims(some, axis=1)))

    def items(self, rows: Tensor) -> Tensor:
        """Vectors of length 1, [M, H]."""
        return _unit(self.own(rows))

    def losses(self, x: Embedded, labels: Tensor, log_shares: Tensor | None = None) -> dict[str, tuple[Tensor, Tensor]]:
        """See the class."""
        users, items = self.users(x), self.items(self.chosen(x))
        good = ops.sum(users * items, axes=(1,))
        if self._loss == "cross_entropy":
            scores = ops.matmul(users, items, transpose_b=True) * self._scale
            return {"ranking": mean_of_clicked(cross_entropy(scores, good * self._scale, log_shares), labels)}
        bad = ops.sum(users * ops.flip(items, axes=[0]), axes=(1,))
        each = ops.relu(self._margin - good + bad)
        if log_shares is not None:
            weights = ops.softmax(-ops.flip(log_shares, axes=[0]), axis=0)
            each = each * weights * ops.cast(ops.extent(log_shares, axis=0), "float32")  # weights of mean 1
        return {"hinge": mean_of_clicked(each, labels)}


def _unit(x: Tensor) -> Tensor:
    """Rows of length 1, [N, H]."""
    return x * ops.rsqrt(ops.sum(ops.square(x), axes=(1,), keepdims=True) + 1e-12)
