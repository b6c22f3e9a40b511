"""What every segmentation loss is, and what several are made of.

Letters: N batch, h w size of the logits, H W size of the labels, K classes. Logits are interpolated to the labels'
size first; pixels labelled `IGNORE` have no loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register_role
from suites.segmentation.sample import IGNORE

if TYPE_CHECKING:
    from suites.segmentation.losses.counts import ClassCounts


class SegmentationLoss(ABC):
    """How wrong the logits of one output are.

    Args:
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, weight: float = 1.0) -> None:
        if not weight > 0:
            raise AttributeValueError(f"{type(self).__name__}: weight is {weight}; it must be positive")
        self.weight = weight

    def prepare(self, counted: Callable[[], ClassCounts]) -> None:  # noqa: B027  (an offer, not a duty)
        """Called once before training; `counted()` counts the pixels of each class in the training set."""

    def __call__(self, logits: Tensor, labels: Tensor) -> Loss:
        """The weighted loss of logits [N, h, w, K] for labels int [N, H, W]."""
        loss = self.of_pixels(ops.resize_bilinear(logits, ops.expand_dims(labels, axis=-1)), labels)
        return loss if self.weight == 1.0 else loss * self.weight

    @abstractmethod
    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss of logits [N, H, W, K] for labels int [N, H, W]."""


register_role("loss", SegmentationLoss, doc="Logits and labels to a scalar.")


def labelled_pixels(labels: Tensor) -> Tensor:
    """1 where a pixel has a class, 0 where it is ignored: float32, the shape of `labels`."""
    return ops.cast(labels != IGNORE, dtype="float32")


def labelled_images(labels: Tensor) -> Tensor:
    """How many of the images have a labelled pixel: the weight of a mean over images, a float32 scalar."""
    with no_grad():
        return ops.sum(ops.max(labelled_pixels(labels), axes=(1, 2)))


def of_each_class(labels: Tensor, logits: Tensor) -> Tensor:
    """1 at the class of each pixel, 0 elsewhere and where it is ignored: float32 [N, H, W, K].

    K is taken from logits [N, H, W, K] in the Program, which so fits any number of classes and any size.
    """
    with no_grad():
        numbers = ops.cast(ops.positions(logits, axis=3), dtype="float32")
        given = ops.expand_dims(ops.cast(labels, dtype="float32"), axis=-1)
        return ops.cast(given == numbers, dtype="float32")
