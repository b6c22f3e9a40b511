"""CrossEntropy: the loss of recognition, with label smoothing, against shares of classes."""

from __future__ import annotations

from dataclasses import dataclass

from framework import ops
from framework.errors import AttributeValueError
from framework.tensor import Tensor


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross entropy, the mean over the batch.

    Args:
        label_smoothing: share e of each target that is spread evenly over all classes (Szegedy et al. 2016).
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise AttributeValueError(f"CrossEntropy: label_smoothing is {self.label_smoothing}; it must be in [0, 1)")

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The loss by name, a scalar. logits: [N, K]; targets: [N, K], rows that sum to 1."""
        loss = ops.soft_cross_entropy(logits, targets)
        if self.label_smoothing:
            # Cross entropy is linear in the targets; that of the even ones is logsumexp - mean of the logits.
            even = ops.logsumexp(logits, axes=-1) - ops.mean(logits, axes=-1)
            loss = loss * (1 - self.label_smoothing) + even * self.label_smoothing
        return {"cross_entropy": ops.mean(loss)}
