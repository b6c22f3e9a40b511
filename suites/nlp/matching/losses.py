"""Losses of vectors of texts, and of scores of pairs.

Letters: B samples, M texts of each (an anchor, one that fits, h that do not), D numbers of a vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register, register_role

_FAR = 1e9  # stands for infinity among scores
Taught = Literal["", "vectors", "scores"]


class VectorLoss(ABC):
    """A loss of the vectors of B samples of M texts.

    Attributes:
        known: arrays of a batch that it needs: `groups` [B] (the anchor's number), `matches` [B] and `others` [B, h]
            (numbers of the texts; left out where h is 0), `targets` [B] (scores from 0 to 1), `taught`.
        taught: what a teacher gives for it: "vectors" [B, M, D], or "scores" [B, M - 1] of the anchor with each text.
        least_hard: negatives that an anchor must have.
    """

    known: ClassVar[tuple[str, ...]]
    taught: ClassVar[Taught] = ""
    least_hard: ClassVar[int] = 0

    @property
    def inner(self) -> VectorLoss:
        """The loss whose arrays are needed: this one, or the one that it goes round."""
        return self

    @property
    def taught_by(self) -> str:
        """The run or exported model that teaches; "" for none."""
        return ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths besides the whole one at which vectors are to be used."""
        return ()

    @abstractmethod
    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The loss by name.  vectors: [B, M, D], of any length."""


register_role("vector_loss", VectorLoss, doc="Vectors of anchors, of texts that fit and of others to loss terms.")


def _row(vectors: Tensor, at: int) -> Tensor:
    """[B, D] of length 1: text `at` of each sample."""
    return nn.unit(vectors[:, at])


@register("vector_loss")
@dataclass(frozen=True)
class InBatchNegatives(VectorLoss):
    """Cross entropy of the text that fits against all other texts of the batch (Henderson et al. 2017; InfoNCE).

    The scores are cosines over `temperature`. Hard negatives of all samples count for every anchor. The text of another
    sample is left out where it has the same anchor or is the same text, so nothing that fits is pushed away.

    Args:
        temperature: that cosines are divided by.
        symmetric: also the anchor against all other anchors, for each text that fits; the mean of both.
    """

    known: ClassVar[tuple[str, ...]] = ("groups", "matches", "others")
    temperature: float = 0.05
    symmetric: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise AttributeValueError(f"InBatchNegatives: temperature is {self.temperature}; it must be above 0")

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        groups, matches, others = known["groups"], known["matches"], known.get("others")
        anchors, fits = _row(vectors, 0), _row(vectors, 1)
        number = ops.cumsum(ops.full_like(groups, value=1), axis=0)
        same = ops.logical_or(_equal(groups, groups), _equal(matches, matches))
        clash = ops.logical_and(same, ops.logical_not(_equal(number, number)))
        scores = ops.where(clash, -_FAR, ops.matmul(anchors, fits, transpose_b=True) / self.temperature)
        right = ops.sum(anchors * fits, axes=-1) / self.temperature
        every = scores
        if others is not None:
            negatives = nn.unit(ops.flatten(vectors[:, 2:], start=0, end=1))
            hard = ops.matmul(anchors, negatives, transpose_b=True) / self.temperature
            numbers = ops.flatten(others, start=0, end=1)
            out = ops.logical_or(_equal(matches, numbers), ops.less(ops.expand_dims(numbers, axis=0), 0))
            every = ops.concat([scores, ops.where(out, -_FAR, hard)], axis=1)
        each = ops.logsumexp(every, axes=1) - right
        if self.symmetric:
            each = (each + ops.logsumexp(scores, axes=0) - right) * 0.5
        return {"in_batch": Loss(ops.mean(each), count_of(groups))}


@register("vector_loss")
@dataclass(frozen=True)
class CoSENT(VectorLoss):
    """log(1 + sum exp(scale (cos of pair j - cos of pair i))) over all i, j of which i has the higher score.

    Only the order of the scores counts, as for Spearman's correlation (Su 2022, https://kexue.fm/archives/8847; it is
    Circle loss's form, Sun et al. 2020, arXiv:2002.10857, equation 1, of pairs).

    Args:
        scale: of differences of cosines.
    """

    known: ClassVar[tuple[str, ...]] = ("targets",)
    scale: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise AttributeValueError(f"CoSENT: scale is {self.scale}; it must be above 0")

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        targets = known["targets"]
        cosine = ops.sum(_row(vectors, 0) * _row(vectors, 1), axes=-1) * self.scale
        higher = ops.greater(ops.expand_dims(targets, axis=1), ops.expand_dims(targets, axis=0))
        gap = ops.expand_dims(cosine, axis=0) - ops.expand_dims(cosine, axis=1)
        every = ops.flatten(ops.where(higher, gap, -_FAR), start=0, end=1)
        return {"cosent": Loss(ops.softplus(ops.logsumexp(every, axes=0)), count_of(targets))}


@register("vector_loss")
@dataclass(frozen=True)
class CosineError(VectorLoss):
    """The squared difference of a pair's cosine from its score, the mean over pairs (Reimers and Gurevych 2019)."""

    known: ClassVar[tuple[str, ...]] = ("targets",)

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        cosine = ops.sum(_row(vectors, 0) * _row(vectors, 1), axes=-1)
        return {"cosine_error": Loss(ops.mean(ops.square(cosine - known["targets"])), count_of(known["targets"]))}


@register("vector_loss")
@dataclass(frozen=True)
class Matryoshka(VectorLoss):
    """Another loss, of the whole vectors and of their first numbers, so that these alone serve too.

    Kusupati et al. 2022, arXiv:2205.13147, equation 1.

    Args:
        loss: of vectors.
        widths: first numbers that are taken; the whole width comes besides.
        weights: of each of them and, last, of the whole; None for 1 each.
    """

    known: ClassVar[tuple[str, ...]] = ()
    loss: VectorLoss
    widths: tuple[int, ...] = (64, 128)
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if (
            not self.widths
            or any(a >= b for a, b in zip(self.widths, self.widths[1:], strict=False))
            or (self.widths[0] < 1)
        ):
            raise AttributeValueError(f"Matryoshka: widths are {list(self.widths)}; they must rise, from 1 or more")
        if self.weights is not None and (len(self.weights) != len(self.widths) + 1 or min(self.weights) < 0):
            raise AttributeValueError(
                f"Matryoshka: weights are {list(self.weights)} for {len(self.widths)} widths and the whole; needed is "
                "one each, 0 or more"
            )
        if self.loss.taught == "vectors" or isinstance(self.loss, Matryoshka):
            raise AttributeValueError(
                f"Matryoshka: does not go round {type(self.loss).__name__}; take InBatchNegatives, CoSENT, CosineError "
                "or MarginError"
            )

    @property
    def inner(self) -> VectorLoss:
        """The other loss."""
        return self.loss

    @property
    def sizes(self) -> tuple[int, ...]:
        """The widths."""
        return self.widths

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        *weights, whole = self.weights or (1.0,) * (len(self.widths) + 1)
        terms = {name: term * whole for name, term in self.loss(vectors, known).items()}
        for width, weight in zip(self.widths, weights, strict=True):
            found = self.loss(vectors[:, :, :width], known)
            terms |= {f"{name}@{width}": term * weight for name, term in found.items()}
        return terms


@dataclass(frozen=True)
class _Taught(VectorLoss):
    """Base of losses with a teacher."""

    teacher: str = ""

    def __post_init__(self) -> None:
        if not self.teacher:
            raise AttributeValueError(f"{type(self).__name__}: teacher is empty; name a run or an exported model")

    @property
    def taught_by(self) -> str:
        """The teacher."""
        return self.teacher


@register("vector_loss")
@dataclass(frozen=True)
class TeacherVectors(_Taught):
    """How far the vectors are from a teacher's of the same texts (Reimers and Gurevych 2020, arXiv:2004.09813).

    Args:
        teacher: a run of SentenceVectors, or a model that `paddock embedder` wrote, whose vectors are as wide.
        measure: "cosine" for 1 - the cosine, "squared" for the mean squared difference of each number.
    """

    known: ClassVar[tuple[str, ...]] = ("taught",)
    taught: ClassVar[Taught] = "vectors"
    measure: Literal["cosine", "squared"] = "cosine"

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        taught = known["taught"]
        if self.measure == "squared":
            return {"teacher": Loss(ops.mean(ops.square(vectors - taught)), count_of(taught))}
        cosine = ops.sum(nn.unit(vectors) * nn.unit(taught), axes=-1)
        return {"teacher": Loss(1.0 - ops.mean(cosine), count_of(taught))}


@register("vector_loss")
@dataclass(frozen=True)
class MarginError(_Taught):
    """By how much the text that fits is ahead of each other, against a reranker's margin, squared.

    Hofstätter et al. 2020, arXiv:2010.02666, equation 6; scores here are cosines times `scale`.

    Args:
        teacher: a run or an exported model of Reranking.
        scale: of cosines.
    """

    known: ClassVar[tuple[str, ...]] = ("taught", "others")
    taught: ClassVar[Taught] = "scores"
    least_hard: ClassVar[int] = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale < float("inf"):
            raise AttributeValueError(f"MarginError: scale is {self.scale}; it must be above 0")

    def __call__(self, vectors: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `VectorLoss`."""
        length_one = nn.unit(vectors)
        cosine = ops.sum(length_one[:, :1] * length_one[:, 1:], axes=-1) * self.scale
        taught = known["taught"]
        gap = (cosine[:, :1] - cosine[:, 1:]) - (taught[:, :1] - taught[:, 1:])
        there = ops.cast(ops.greater_equal(known["others"], 0), "float32")
        count = ops.sum(there)
        return {"margin_error": Loss(ops.sum(ops.square(gap) * there) / ops.maximum(count, 1.0), count)}


class RankLoss(ABC):
    """A loss of the scores of pairs.

    Attributes:
        grouped: whether it takes a pair that fits with others of its query; else each pair with its gain.
    """

    grouped: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, scores: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The loss by name.

        scores: [B], with `targets` [B] from 0 to 1; or grouped [B, 1 + h], the pair that fits first, with `others`
        [B, h], below 0 where there is no other.
        """


register_role("rank_loss", RankLoss, doc="Scores of pairs to loss terms.")


@register("rank_loss")
@dataclass(frozen=True)
class Pointwise(RankLoss):
    """Binary cross entropy of each pair's score as a logit, with its gain as the share that fits (Nogueira 2019)."""

    grouped: ClassVar[bool] = False

    def __call__(self, scores: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `RankLoss`."""
        targets = known["targets"]
        return {"binary": Loss(ops.mean(ops.softplus(scores) - scores * targets), count_of(targets))}


@register("rank_loss")
@dataclass(frozen=True)
class Listwise(RankLoss):
    """Cross entropy of the pair that fits among those of its query (Gao et al. 2021, arXiv:2101.08751)."""

    def __call__(self, scores: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `RankLoss`."""
        others = ops.where(ops.less(known["others"], 0), -_FAR, scores[:, 1:])
        every = ops.concat([scores[:, :1], others], axis=1)
        each = ops.logsumexp(every, axes=1) - scores[:, 0]
        return {"listwise": Loss(ops.mean(each), count_of(scores))}


@register("rank_loss")
@dataclass(frozen=True)
class Hinge(RankLoss):
    """max(0, margin - the score that fits + another's), the mean over pairs: SimNet's pairwise training.

    Args:
        margin: by which the pair that fits should be ahead.
    """

    margin: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.margin < float("inf"):
            raise AttributeValueError(f"Hinge: margin is {self.margin}; it must be above 0")

    def __call__(self, scores: Tensor, known: Mapping[str, Tensor]) -> dict[str, Loss]:
        """See `RankLoss`."""
        there = ops.cast(ops.greater_equal(known["others"], 0), "float32")
        each = ops.relu(scores[:, 1:] - scores[:, :1] + self.margin) * there
        count = ops.sum(there)
        return {"hinge": Loss(ops.sum(each) / ops.maximum(count, 1.0), count)}


def _equal(a: Tensor, b: Tensor) -> Tensor:
    """bool [A, B]: whether each of a [A] is each of b [B]."""
    return ops.equal(ops.expand_dims(a, axis=1), ops.expand_dims(b, axis=0))
