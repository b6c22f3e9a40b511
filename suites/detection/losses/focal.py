"""The focal loss (Lin et al. 2017, arXiv:1708.02002), from logits, finite with finite gradients for any of them.

With z = x for a target of 1 and z = -x for 0, the probability of the target is p = sigmoid(z), and
alpha' (1 - p)^gamma (-log p) = alpha' exp(-gamma softplus(z)) softplus(-z), with alpha' = alpha for 1, 1 - alpha for 0.
"""

from __future__ import annotations

from framework import ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor


def sigmoid_focal_loss(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """The focal loss of each logit.

    Args:
        logits: any shape.
        targets: 0 or 1, that shape.
        alpha: weight of targets of 1; those of 0 have 1 - alpha. Below 0: no weights.
        gamma: how much easy examples count less, 0 or more; 0 gives cross entropy.
    """
    check_focal("sigmoid_focal_loss", alpha, gamma)
    z = logits * (targets * 2.0 - 1.0)
    loss = _modulated(z, gamma)
    return loss if alpha < 0 else loss * (targets * (2 * alpha - 1) + (1 - alpha))


def sparse_focal_loss(
    logits: Tensor, classes: Tensor, positive: Tensor, counted: Tensor, alpha: float = 0.25, gamma: float = 2.0
) -> Tensor:
    """The sum of focal losses of rows that have one class or none; no table of targets is made.

    Args:
        logits: [N, P, K].
        classes: int64 [N, P] in [0, K); read where `positive` is not 0.
        positive: float32 [N, P], weight of "it is of this class": 1, 0, or between after mixup, where "it is not"
            has the rest of the weight.
        counted: float32 [N, P], 1 where the row counts, 0 where it is ignored.
        alpha: see `sigmoid_focal_loss`.
        gamma: see `sigmoid_focal_loss`.

    Returns:
        A scalar.
    """
    check_focal("sparse_focal_loss", alpha, gamma)
    yes, no = (1.0, 1.0) if alpha < 0 else (alpha, 1 - alpha)
    absent = ops.sum(_modulated(-logits, gamma) * ops.expand_dims(counted, axis=2)) * no
    own = ops.squeeze(ops.take_along_axis(logits, ops.expand_dims(classes, axis=2), axis=2), axis=2)  # [N, P]
    return absent + ops.sum((_modulated(own, gamma) * yes - _modulated(-own, gamma) * no) * positive)


def check_focal(who: str, alpha: float, gamma: float) -> None:
    """Raises AttributeValueError for an alpha above 1 or a gamma below 0."""
    if alpha > 1 or gamma < 0:
        raise AttributeValueError(f"{who}: alpha is {alpha} and gamma {gamma}; alpha is at most 1, gamma 0 or more")


def _modulated(z: Tensor, gamma: float) -> Tensor:
    """(1 - p)^gamma (-log p) with p = sigmoid(z)."""
    entropy = ops.softplus(-z)
    return entropy if gamma == 0 else ops.exp(ops.softplus(z) * -gamma) * entropy
