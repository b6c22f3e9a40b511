"""How much the pixels of each class count: numbers, or a rule over the training set or the batch.

Letters: N batch, H W size of the labels, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError, StateError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.contract.losses import Loss
from suites.segmentation.losses.base import SegmentationLoss, labelled_pixels
from suites.segmentation.losses.counts import ClassCounts, Rule
from suites.segmentation.sample import IGNORE

ClassWeights = Sequence[float] | Rule | None
_RULES = ("median_frequency", "inverse_log", "batch")


class WeightedLoss(SegmentationLoss):
    """A mean over labelled pixels in which classes may count differently; the mean is weighted too.

    Args:
        class_weights: a number of each class; or "median_frequency" or "inverse_log", computed from the training set
            before training; or "batch", all pixels of a batch over those of the class.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, class_weights: ClassWeights = None, weight: float = 1.0) -> None:
        super().__init__(weight)
        who = type(self).__name__
        if isinstance(class_weights, str):
            if class_weights not in _RULES:
                raise AttributeValueError(f"{who}: class_weights is '{class_weights}'; a rule is one of {[*_RULES]}")
        elif class_weights is not None and (min(class_weights, default=0) < 0 or not sum(class_weights)):
            raise AttributeValueError(
                f"{who}: class_weights is {list(class_weights)}; it needs a number of 0 or more for each class"
            )
        self.class_weights: ClassWeights = class_weights
        self._table: np.ndarray | None = None
        if class_weights is not None and not isinstance(class_weights, str):
            self._table = np.array(class_weights, np.float32)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """Class weights are as many as classes."""
        weights, classes = part.get("class_weights"), part.config["data.num_classes"]
        if isinstance(weights, (list, tuple)) and classes is not None and len(weights) != classes:
            text = f"has {len(weights)} numbers but data.num_classes is {classes}; give one a class"
            yield part.problem("class_weights", text)

    def prepare(self, counted: Callable[[], ClassCounts]) -> None:
        """Computes the weights of a rule over the training set."""
        if self.class_weights in ("median_frequency", "inverse_log"):
            self._table = counted().weights(self.class_weights)

    @property
    def by_class(self) -> np.ndarray | None:
        """How much each class counts, float32 [K]; None where all count alike, or only a batch says it."""
        return self._table

    def _mean(self, loss: Tensor, labels: Tensor) -> Loss:
        """The mean of loss [N, H, W], which is 0 at ignored pixels, over the labelled ones by their weights."""
        if self.class_weights is None:
            with no_grad():
                total = ops.sum(labelled_pixels(labels))
            return Loss(ops.sum(loss) / ops.maximum(total, 1e-6), total)
        with no_grad():
            share = self._share(labels)
            total = ops.sum(share)
        return Loss(ops.sum(loss * share) / ops.maximum(total, 1e-6), total)

    def _share(self, labels: Tensor) -> Tensor:
        """Each pixel's weight, 0 where it is ignored: float32 [N, H, W]."""
        if self.class_weights == "batch":
            known = labelled_pixels(labels)
            flat = ops.reshape(labels, shape=(-1,))
            zeros = tensor(np.zeros(IGNORE + 1, np.float32))
            counts = ops.scatter_add(zeros, flat, ops.reshape(known, shape=(-1,)), axis=0)
            return ops.gather(ops.sum(counts) / ops.maximum(counts, 1.0), labels) * known
        if self._table is None:
            raise StateError(
                f"{type(self).__name__}: class_weights '{self.class_weights}' are computed from the training set, "
                "which was not counted yet; call prepare() first, as the task's begin() does"
            )
        by_label = np.zeros(IGNORE + 1, np.float32)
        by_label[: len(self._table)] = self._table
        return ops.gather(tensor(by_label), labels)
