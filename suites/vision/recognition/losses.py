"""CrossEntropy: the loss of recognition, with label smoothing, against shares of classes."""

from __future__ import annotations

from dataclasses import dataclass

from framework import ops
from framework.tensor import Tensor
from suites.engine.losses import Loss, SmoothedLabels, count_of


@dataclass(frozen=True)
class CrossEntropy(SmoothedLabels):
    """Softmax cross entropy, the mean over the batch."""

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [N, K]; targets: [N, K], rows that sum to 1."""
        loss = ops.soft_cross_entropy(logits, targets)
        if self.label_smoothing:
            # Cross entropy is linear in the targets; that of the even ones is logsumexp - mean of the logits.
            even = ops.logsumexp(logits, axes=-1) - ops.mean(logits, axes=-1)
            loss = loss * (1 - self.label_smoothing) + even * self.label_smoothing
        return {"cross_entropy": Loss(ops.mean(loss), count_of(targets))}
