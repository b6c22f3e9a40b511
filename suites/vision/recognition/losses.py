"""The losses of recognition: CrossEntropy for one class of several, BinaryCrossEntropy for any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from framework import ops, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, SmoothedLabels, count_of


@dataclass(frozen=True)
class CrossEntropy(SmoothedLabels):
    """Softmax cross entropy against shares of classes, the mean over the batch.

    With class weights w, a class's share t of a target counts w * t, and the mean is over the sum of these.

    Args:
        class_weights: one for each class, in the order of the data's classes; "balanced" for one over how often the
            class occurs in the training set, of mean 1 over its samples.
    """

    class_weights: tuple[float, ...] | Literal["balanced"] | None = None
    multi_label: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = self.class_weights
        if isinstance(weights, str):
            if weights != "balanced":
                raise AttributeValueError(f"{type(self).__name__}: class_weights is '{weights}'; it is not 'balanced'")
        elif weights is not None and not (weights and min(weights) >= 0 < sum(weights) < np.inf):
            raise AttributeValueError(
                f"{type(self).__name__}: class_weights is {list(weights)}; they must be 0 or more and not all 0"
            )

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [N, K]; targets: [N, K], rows that sum to 1."""
        if self.class_weights is not None:
            smooth = targets * (1 - self.label_smoothing) + self.label_smoothing / len(self.class_weights)
            counted = smooth * self._weights()
            total = ops.sum(counted)
            lost = -ops.sum(counted * ops.log_softmax(logits, axis=-1))
            return {"cross_entropy": Loss(lost / ops.maximum(total, 1e-12), total)}
        loss = ops.soft_cross_entropy(logits, targets)
        if self.label_smoothing:
            # Cross entropy is linear in the targets; that of the even ones is logsumexp - mean of the logits.
            even = ops.logsumexp(logits, axes=-1) - ops.mean(logits, axes=-1)
            loss = loss * (1 - self.label_smoothing) + even * self.label_smoothing
        return {"cross_entropy": Loss(ops.mean(loss), count_of(targets))}

    def scores(self, logits: Tensor) -> Tensor:
        """Probabilities of the classes [N, K], which sum to 1."""
        return ops.softmax(logits, axis=-1)

    def _weights(self) -> Tensor:
        if isinstance(self.class_weights, str):
            raise ConfigError("loss.class_weights: they are balanced by the training set, which is not there yet")
        return tensor(np.array(self.class_weights, np.float32))


@dataclass(frozen=True)
class BinaryCrossEntropy(CrossEntropy):
    """Sigmoid cross entropy of each class by itself, the mean over classes and batch: for samples of several classes.

    With class weights, that of each class counts so much more.
    """

    multi_label: ClassVar[bool] = True

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [N, K]; targets: [N, K], each in [0, 1]."""
        smooth = targets * (1 - self.label_smoothing) + self.label_smoothing / 2 if self.label_smoothing else targets
        each = ops.sigmoid_cross_entropy(logits, smooth)
        if self.class_weights is not None:
            weights = self._weights()
            each = each * (weights / ops.mean(weights))
        return {"cross_entropy": Loss(ops.mean(each), count_of(targets))}

    def scores(self, logits: Tensor) -> Tensor:
        """Probability of each class [N, K] by itself."""
        return ops.sigmoid(logits)


def balanced_weights(counts: Sequence[int]) -> tuple[float, ...]:
    """N / (K n_k) of classes with n_k samples, N of all K that occur; 0 of a class without samples."""
    found = np.asarray(counts, np.float64)
    seen = max(int((found > 0).sum()), 1)
    return tuple(float(found.sum() / (seen * n)) if n else 0.0 for n in found)
