"""Losses of metric learning: of pairs and triplets in a batch, and of classes that have a vector each.

All take vectors of length 1, so a similarity is a cosine and a squared distance 2 - 2 cosines. Letters: N samples of a
batch, D numbers of a vector, K classes of training.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register, register_role

_FAR = 1e9  # stands for infinity among cosines
_NEAR = 1e-8  # squared distance below which a root has no gradient


class ClassVectors(nn.Layer):
    """A vector for each class of training, [K, D]; trained, and no part of the network that is evaluated.

    Args:
        num_classes: K.
        size: D.
    """

    weight: Tensor

    def __init__(self, num_classes: int, size: int) -> None:
        super().__init__()
        self.add_parameter("weight", (num_classes, size), init.Xavier("normal"))

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: [N, D] of length 1; cosines with the classes, [N, K]."""
        return ops.matmul(vectors, nn.unit(self.weight), transpose_b=True)


class MetricLoss(ABC):
    """A loss of vectors with their classes.

    Attributes:
        pairs: whether it compares samples of a batch, so that a batch must have several of a class.
        has_classes: whether it has a vector for each class, see `ClassVectors`.
    """

    pairs: ClassVar[bool] = True
    has_classes: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """The loss by name.

        Args:
            vectors: [N, D] of length 1.
            labels: int64 [N].
            classes: of losses that have them.
        """


register_role("loss", MetricLoss, doc="Vectors and classes to loss terms.")


@dataclass(frozen=True)
class _Margin(MetricLoss):
    """Base of losses with a margin above 0."""

    margin: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.margin < math.inf:
            raise AttributeValueError(f"{type(self).__name__}: margin is {self.margin}; it must be above 0")


@register("loss")
@dataclass(frozen=True)
class BatchHard(_Margin):
    """Triplets of each sample with its farthest of the same class and its nearest of another (arXiv:1703.07737).

    relu(margin + d(a, p) - d(a, n)) of distances d, the mean over the samples that have both. One that is alone of its
    class in the batch has none.

    Args:
        margin: by which another class should be farther.
        soft: log(1 + exp(d(a, p) - d(a, n))) in place of the margin.
    """

    margin: float = 0.2
    soft: bool = False

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        same, other = _pairs(labels)
        far = distances(vectors)
        hardest = ops.max(ops.where(same, far, -_FAR), axes=1)
        nearest = ops.min(ops.where(other, far, _FAR), axes=1)
        valid = ops.logical_and(ops.any(same, axes=1), ops.any(other, axes=1))
        gap = ops.where(valid, hardest - nearest, 0.0)
        each = ops.softplus(gap) if self.soft else ops.relu(gap + self.margin)
        return {"triplet": _mean(each, valid)}


@register("loss")
@dataclass(frozen=True)
class SemiHard(_Margin):
    """Triplets with a negative that is farther than the positive, but no farther than needed (arXiv:1503.03832).

    For each pair of one class: the nearest of another class that is farther than the pair's distance, else the farthest
    of another class. relu(margin + d(a, p) - d(a, n)) of squared distances, the mean over pairs. It looks at N^3
    distances at once: 64 MB for N = 256.

    Args:
        margin: by which another class should be farther, in squared distance.
    """

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        same, other = _pairs(labels)
        far = 2.0 - 2.0 * cosines(vectors)
        pair, each = ops.expand_dims(far, 2), ops.expand_dims(far, 1)  # d(a, p), d(a, n)
        negative = ops.broadcast_like(ops.expand_dims(other, 1), each + pair)
        beyond = ops.logical_and(ops.greater(each, pair), negative)
        nearest = ops.min(ops.where(beyond, each + ops.full_like(pair, value=0.0), _FAR), axes=2)
        farthest = ops.max(ops.where(other, far, -_FAR), axes=1, keepdims=True)
        chosen = ops.where(ops.any(beyond, axes=2), nearest, farthest)
        valid = ops.logical_and(same, ops.any(other, axes=1, keepdims=True))
        gap = ops.where(valid, far - chosen, 0.0)
        return {"triplet": _mean(ops.relu(gap + self.margin), valid)}


@register("loss")
@dataclass(frozen=True)
class NPair(MetricLoss):
    """Each pair of one class against all of other classes: log(1 + sum_n exp(s(a, n) - s(a, p))) (Sohn 2016).

    The mean over pairs of one class. Sohn's vectors have any length, with a penalty on it; these have length 1, so
    similarities s are cosines times `scale`.

    Args:
        scale: of cosines.
    """

    scale: float = 16.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise AttributeValueError(f"NPair: scale is {self.scale}; it must be above 0")

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        same, other = _pairs(labels)
        similar = cosines(vectors) * self.scale
        against = ops.logsumexp(ops.where(other, similar, -_FAR), axes=1, keepdims=True)
        valid = ops.logical_and(same, ops.any(other, axes=1, keepdims=True))
        return {"n_pair": _mean(ops.softplus(ops.where(valid, against - similar, 0.0)), valid)}


@register("loss")
@dataclass(frozen=True)
class MultiSimilarity(MetricLoss):
    """Pairs chosen and weighted by three similarities (Wang et al. 2019, arXiv:1904.06627, equations 5 to 7).

    A pair of two classes counts if it is more alike than the least alike of one class less `epsilon`, and one of one
    class if it is less alike than the most alike of two classes plus `epsilon`. The mean over all samples; those
    without both kinds of pairs count 0, as in the authors' code.

    Args:
        alpha, beta: how sharply hard pairs of one class, and of two, are weighted.
        base: similarity around which they are weighted, lambda in the paper.
        epsilon: see above.
    """

    alpha: float = 2.0
    beta: float = 50.0
    base: float = 0.5
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and self.beta > 0):
            raise AttributeValueError(
                f"MultiSimilarity: alpha is {self.alpha} and beta {self.beta}; both must be above 0"
            )

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        same, other = _pairs(labels)
        similar = cosines(vectors)
        least = ops.min(ops.where(same, similar, _FAR), axes=1, keepdims=True)
        most = ops.max(ops.where(other, similar, -_FAR), axes=1, keepdims=True)
        negative = ops.logical_and(other, ops.greater(similar + self.epsilon, least))
        positive = ops.logical_and(same, ops.less(similar - self.epsilon, most))
        valid = ops.logical_and(ops.any(negative, axes=1), ops.any(positive, axes=1))
        alike = _log1p_sum_exp(-self.alpha * (similar - self.base), positive, 1) / self.alpha
        apart = _log1p_sum_exp(self.beta * (similar - self.base), negative, 1) / self.beta
        each = ops.where(valid, alike + apart, 0.0)
        return {"multi_similarity": Loss(ops.mean(each), count_of(labels))}


@dataclass(frozen=True)
class _Softmax(MetricLoss):
    """Base of cross entropies over cosines with class vectors, the own class's made smaller by a margin."""

    pairs: ClassVar[bool] = False
    has_classes: ClassVar[bool] = True
    scale: float = 64.0
    margin: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.scale < math.inf and 0 <= self.margin < math.pi / 2):
            raise AttributeValueError(
                f"{type(self).__name__}: scale is {self.scale} and margin {self.margin}; the scale must be above 0, "
                "the margin from 0 to pi / 2"
            )

    def _smaller(self, cosine: Tensor) -> Tensor:
        """The cosine with the own class, less the margin."""
        raise NotImplementedError(f"{type(self).__name__} defines no _smaller()")

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        assert classes is not None
        cosine = ops.clip(classes(vectors), -1.0, 1.0)
        own = _own(labels, classes)
        logits = self.scale * ops.where(own, self._smaller(cosine), cosine)
        each = ops.soft_cross_entropy(logits, ops.cast(own, logits.dtype))
        return {type(self).__name__.lower(): Loss(ops.mean(each), count_of(labels))}


@register("loss")
@dataclass(frozen=True)
class ArcFace(_Softmax):
    """Cross entropy of scale * cos(angle + margin) with the own class (Deng et al. 2019, arXiv:1801.07698).

    Where angle + margin is above pi, cos(angle) - margin * sin(margin) in its place, as in the authors' code.

    Args:
        scale: of cosines, s in the paper.
        margin: added to the angle, in radians.
    """

    scale: float = 64.0
    margin: float = 0.5

    def _smaller(self, cosine: Tensor) -> Tensor:
        sine = ops.sqrt(ops.maximum(1.0 - cosine * cosine, _NEAR))
        turned = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        return ops.where(
            ops.greater(cosine, math.cos(math.pi - self.margin)), turned, cosine - self.margin * math.sin(self.margin)
        )


@register("loss")
@dataclass(frozen=True)
class CosFace(_Softmax):
    """Cross entropy of scale * (cosine - margin) with the own class (Wang et al. 2018, arXiv:1801.09414).

    Args:
        scale: of cosines.
        margin: taken from the cosine.
    """

    scale: float = 64.0
    margin: float = 0.35

    def _smaller(self, cosine: Tensor) -> Tensor:
        return cosine - self.margin


@register("loss")
@dataclass(frozen=True)
class ProxyAnchor(MetricLoss):
    """Each class's vector against the samples of a batch (Kim et al. 2020, arXiv:2003.13911, equation 4).

    Args:
        alpha: how sharply hard samples are weighted.
        margin: added to the cosines of other classes, taken from those of the own.
    """

    pairs: ClassVar[bool] = False
    has_classes: ClassVar[bool] = True
    alpha: float = 32.0
    margin: float = 0.1

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and self.margin >= 0):
            raise AttributeValueError(
                f"ProxyAnchor: alpha is {self.alpha} and margin {self.margin}; alpha must be above 0, "
                "the margin 0 or more"
            )

    def __call__(self, vectors: Tensor, labels: Tensor, classes: ClassVectors | None = None) -> dict[str, Loss]:
        """See `MetricLoss`."""
        assert classes is not None
        cosine, own = classes(vectors), _own(labels, classes)
        present = ops.cast(ops.any(own, axes=0), cosine.dtype)
        alike = _log1p_sum_exp(-self.alpha * (cosine - self.margin), own, 0)
        apart = _log1p_sum_exp(self.alpha * (cosine + self.margin), ops.logical_not(own), 0)
        mean = ops.sum(alike) / ops.maximum(ops.sum(present), 1.0) + ops.mean(apart)
        return {"proxy_anchor": Loss(mean, count_of(labels))}


def cosines(vectors: Tensor) -> Tensor:
    """Of all pairs of vectors [N, D] of length 1: [N, N]."""
    return ops.matmul(vectors, vectors, transpose_b=True)


def distances(vectors: Tensor) -> Tensor:
    """Of all pairs of vectors [N, D] of length 1: [N, N]; those below 1e-4 count as 1e-4 and have no gradient."""
    return ops.sqrt(ops.maximum(2.0 - 2.0 * cosines(vectors), _NEAR))


def _pairs(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Whether two different samples have one class, and whether they have two: bool [N, N] each."""
    number = ops.cumsum(ops.full_like(labels, value=1), axis=0)
    equal = ops.equal(ops.expand_dims(labels, 1), ops.expand_dims(labels, 0))
    apart = ops.not_equal(ops.expand_dims(number, 1), ops.expand_dims(number, 0))
    return ops.logical_and(equal, apart), ops.logical_not(equal)


def _own(labels: Tensor, classes: ClassVectors) -> Tensor:
    """Whether a class is a sample's own, bool [N, K]."""
    return ops.greater(ops.one_hot(labels, depth=int(classes.weight.shape[0]), dtype="float32"), 0.5)


def _log1p_sum_exp(x: Tensor, taken: Tensor, axis: int) -> Tensor:
    """log(1 + sum exp(x)) over those of an axis that are taken; 0 where none is."""
    return ops.softplus(ops.logsumexp(ops.where(taken, x, -_FAR), axes=axis))


def _mean(each: Tensor, valid: Tensor) -> Loss:
    """The mean of those that are valid; 0 with the weight 0 where none is."""
    count = ops.sum(ops.cast(valid, each.dtype))
    return Loss(ops.sum(ops.where(valid, each, 0.0)) / ops.maximum(count, 1.0), count)
