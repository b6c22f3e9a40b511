"""Losses that are means over pixels: cross entropy of all or of hard pixels, focal loss, one class against the rest.

Letters: N batch, H W size of the labels, K classes.
"""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.segmentation.losses.base import SegmentationLoss, labelled_pixels, of_each_class
from suites.segmentation.losses.weights import ClassWeights, WeightedLoss
from suites.segmentation.sample import IGNORE


@register("loss")
class CrossEntropy(WeightedLoss):
    """Softmax cross entropy, averaged over the labelled pixels.

    Args:
        label_smoothing: share of the target that is spread over all classes.
        class_weights: a number of each class, so that rare classes count more; or "median_frequency" or "inverse_log",
            computed from the training set; or "batch", all pixels of a batch over those of the class. The mean is
            weighted too.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, label_smoothing: float = 0.0, class_weights: ClassWeights = None, weight: float = 1.0) -> None:
        super().__init__(class_weights, weight)
        if not 0 <= label_smoothing < 1:
            raise AttributeValueError(
                f"CrossEntropy: label_smoothing is {label_smoothing}; it must be at least 0 and below 1"
            )
        self.label_smoothing = label_smoothing

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        loss = ops.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=self.label_smoothing)
        return self._mean(loss, labels)


@register("loss")
class Focal(WeightedLoss):
    """Cross entropy times (1 - p)^gamma, p the probability of the right class (Lin et al. 2017, arXiv:1708.02002).

    Over the softmax of K classes; the authors have one sigmoid a class.

    Args:
        gamma: how much easy pixels count less; 0 is cross entropy.
        class_weights: as `CrossEntropy`'s; the authors' alpha.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, gamma: float = 2.0, class_weights: ClassWeights = None, weight: float = 1.0) -> None:
        super().__init__(class_weights, weight)
        if not gamma >= 0:
            raise AttributeValueError(f"Focal: gamma is {gamma}; it must be 0 or more")
        self.gamma = gamma

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        loss = ops.cross_entropy(logits, labels, ignore_index=IGNORE)
        # Not 0 itself, at which powers below 1 have no slope; ignored pixels have the loss 0.
        return self._mean(loss * ops.pow(ops.maximum(1.0 - ops.exp(-loss), 1e-6), self.gamma), labels)


@register("loss")
class BinaryCrossEntropy(SegmentationLoss):
    """Sigmoid cross entropy of each class against the rest, averaged over labelled pixels and classes.

    Args:
        positive_weight: how much more a pixel counts for its own class than for another.
        weight: factor on the loss, for a sum of several.
    """

    def __init__(self, positive_weight: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(weight)
        if not positive_weight > 0:
            raise AttributeValueError(f"BinaryCrossEntropy: positive_weight is {positive_weight}; it must be positive")
        self.positive_weight = positive_weight

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        target = of_each_class(labels, logits)
        loss = ops.sigmoid_cross_entropy(logits, target)
        with no_grad():
            known = labelled_pixels(labels)
            total = ops.sum(known)
            share = ops.expand_dims(known, axis=-1)
            if self.positive_weight != 1.0:
                share = share * (1.0 + target * (self.positive_weight - 1.0))
        summed = ops.sum(ops.mean(loss * share, axes=(3,)))
        return Loss(summed / ops.maximum(total, 1.0), total)


@register("loss")
class BalancedCrossEntropy(SegmentationLoss):
    """Cross entropy in which both classes of an image count alike (Xie and Tu 2015, arXiv:1504.06375, eq. 2).

    A pixel counts by the share of its image's labelled pixels that are of other classes; the authors have two classes.
    They sum over an image's pixels and this is the mean over them, so their learning rate of 1e-6 is 0.15 here, for
    images of 321 x 481.
    """

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        loss = ops.cross_entropy(logits, labels, ignore_index=IGNORE)
        with no_grad():
            classes = of_each_class(labels, logits)
            counts = ops.sum(classes, axes=(1, 2), keepdims=True)
            all_of_image = ops.sum(counts, axes=(3,), keepdims=True)
            share = ops.sum(classes * (1.0 - counts / ops.maximum(all_of_image, 1.0)), axes=(3,))
            total = ops.sum(all_of_image)
        return Loss(ops.sum(loss * share) / ops.maximum(total, 1.0), total)


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
            # With as many zeros behind, a batch of fewer pixels has a `min_kept`-th largest too.
            padded = ops.pad(loss.detach(), pads=(0, self.min_kept))
            least = ops.topk(padded, k=self.min_kept)[0][self.min_kept - 1 : self.min_kept]
            bound = ops.minimum(least, float(-np.log(self.threshold)))
            labelled = ops.reshape(labelled_pixels(labels), shape=(-1,))
            hard = ops.cast(loss.detach() >= bound, dtype="float32") * labelled
            total = ops.maximum(ops.sum(hard), 1.0)
        return Loss(ops.sum(loss * hard) / total, ops.sum(labelled))
