"""Losses of segmentation, made of operators and traced into the training Program.

Letters: N batch, h w size of the logits, H W size of the labels, K classes. Logits are interpolated to the labels'
size first; pixels labelled `IGNORE` have no loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensor import Tensor
from suites.engine.losses import Loss, count_of
from suites.engine.registry import register, register_role
from suites.segmentation.sample import IGNORE


class SegmentationLoss(ABC):
    """How wrong the logits of one output are.

    Args:
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, weight: float = 1.0) -> None:
        if not weight > 0:
            raise AttributeValueError(f"{type(self).__name__}: weight is {weight}; it must be positive")
        self.weight = weight

    def __call__(self, logits: Tensor, labels: Tensor) -> Loss:
        """The weighted loss of logits [N, h, w, K] for labels int [N, H, W]."""
        loss = self.of_pixels(ops.resize_bilinear(logits, ops.expand_dims(labels, axis=-1)), labels)
        return loss if self.weight == 1.0 else loss * self.weight

    @abstractmethod
    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss of logits [N, H, W, K] for labels int [N, H, W]."""


register_role("loss", SegmentationLoss, doc="Logits and labels to a scalar.")


@register("loss")
class CrossEntropy(SegmentationLoss):
    """Softmax cross entropy, averaged over the labelled pixels.

    Args:
        label_smoothing: share of the target that is spread over all classes.
        class_weights: of each class's pixels, so that rare classes count more; the mean is weighted too.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(
        self, label_smoothing: float = 0.0, class_weights: Sequence[float] | None = None, weight: float = 1.0
    ) -> None:
        super().__init__(weight)
        if not 0 <= label_smoothing < 1:
            raise AttributeValueError(
                f"CrossEntropy: label_smoothing is {label_smoothing}; it must be at least 0 and below 1"
            )
        if class_weights is not None and (min(class_weights, default=0) < 0 or not sum(class_weights)):
            raise AttributeValueError(
                f"CrossEntropy: class_weights is {list(class_weights)}; it needs a number of 0 or more for each class"
            )
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        loss = ops.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=self.label_smoothing)
        with no_grad():
            share = _labelled(labels) if self.class_weights is None else self._share(labels)
            total = ops.sum(share)
        # Without class weights an ignored pixel's loss is 0 already.
        summed = ops.sum(loss if self.class_weights is None else loss * share)
        return Loss(summed / ops.maximum(total, 1e-6), total)

    def _share(self, labels: Tensor) -> Tensor:
        """Each pixel's weight, 0 where it is ignored: float32 [N, H, W]."""
        by_label = np.zeros(IGNORE + 1, np.float32)
        by_label[: len(self.class_weights or ())] = self.class_weights
        return ops.gather(tensor(by_label), labels)


@register("loss")
class OhemCrossEntropy(SegmentationLoss):
    """Cross entropy of the hard pixels alone: online hard example mining (Shrivastava et al. 2016, arXiv:1604.03540).

    A pixel is hard where its class gets less than `threshold`, or if it is among the `min_kept` with the largest loss.
    Which pixels are hard is decided in each batch, so batches joined by `runtime.accumulate` are no large batch here:
    each counts by its labelled pixels.

    Args:
        threshold: probability of the right class below which a pixel is hard.
        min_kept: pixels of a batch that are kept at least; no more than a batch has.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, threshold: float = 0.7, min_kept: int = 10000, weight: float = 1.0) -> None:
        super().__init__(weight)
        if not 0 < threshold <= 1 or min_kept < 1:
            raise AttributeValueError(
                f"OhemCrossEntropy: threshold is {threshold} and min_kept {min_kept}; needed is a threshold in (0, 1] "
                "and min_kept of 1 or more"
            )
        self.threshold, self.min_kept = threshold, min_kept

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        loss = ops.reshape(ops.cross_entropy(logits, labels, ignore_index=IGNORE), shape=(-1,))
        with no_grad():
            least = ops.slice(
                ops.topk(loss.detach(), k=self.min_kept)[0], starts=(self.min_kept - 1,), ends=(self.min_kept,)
            )
            bound = ops.minimum(least, float(-np.log(self.threshold)))
            labelled = ops.reshape(_labelled(labels), shape=(-1,))
            hard = ops.cast(loss.detach() >= bound, dtype="float32") * labelled
            total = ops.maximum(ops.sum(hard), 1.0)
        return Loss(ops.sum(loss * hard) / total, ops.sum(labelled))


@register("loss")
class Dice(SegmentationLoss):
    """1 - the mean over classes of 2 |A and B| / (|A| + |B|), A the class's probabilities (Milletari et al. 2016).

    It is a share of sums over a batch, so batches joined by `runtime.accumulate` are no large batch here: each counts
    by its images.

    Args:
        smooth: pixels added above and below the line, so that a class that is nowhere counts as found.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, smooth: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(weight)
        if not smooth > 0:
            raise AttributeValueError(f"Dice: smooth is {smooth}; it must be positive")
        self.smooth = smooth

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        with no_grad():
            # The class numbers [1, 1, 1, K] from the logits themselves, so that the Program fits any size.
            ones = ops.full_like(ops.slice(logits, starts=(0, 0, 0), ends=(1, 1, 1), axes=(0, 1, 2)), value=1.0)
            numbers = ops.cumsum(ones, axis=3) - 1.0
            given = ops.expand_dims(ops.cast(labels, dtype="float32"), axis=-1)
            target = ops.cast(given == numbers, dtype="float32")
            labelled = ops.expand_dims(_labelled(labels), axis=-1)
        found = ops.softmax(logits, axis=-1) * labelled
        both = ops.sum(found * target, axes=(0, 1, 2))
        either = ops.sum(found, axes=(0, 1, 2)) + ops.sum(target, axes=(0, 1, 2))
        return Loss(1.0 - ops.mean((both * 2.0 + self.smooth) / (either + self.smooth)), count_of(labels))


def _labelled(labels: Tensor) -> Tensor:
    """1 where a pixel has a class, 0 where it is ignored: float32, the shape of `labels`."""
    return ops.cast(labels != IGNORE, dtype="float32")
