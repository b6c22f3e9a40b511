"""Losses that compare whole regions over a batch: Dice, and the Lovasz extensions of intersection over union.

Each is a share of sums over a batch, so batches joined by `runtime.accumulate` are no large batch here: each counts by
its images with labels.

Letters: N batch, H W size of the labels, P = N H W pixels, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.segmentation.losses.base import SegmentationLoss, labelled_images, labelled_pixels, of_each_class

_LAST = -1e30  # where ignored pixels stand among errors


@register("loss")
class Dice(SegmentationLoss):
    """1 - the mean over classes of 2 |A and B| / (|A| + |B|), A the class's probabilities (Milletari et al. 2016).

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
        target = of_each_class(labels, logits)
        found = ops.softmax(logits, axis=-1) * ops.expand_dims(labelled_pixels(labels), axis=-1)
        both = ops.sum(found * target, axes=(0, 1, 2))
        either = ops.sum(found, axes=(0, 1, 2)) + ops.sum(target, axes=(0, 1, 2))
        return Loss(1.0 - ops.mean((both * 2.0 + self.smooth) / (either + self.smooth)), labelled_images(labels))


@register("loss")
class LovaszSoftmax(SegmentationLoss):
    """1 - intersection over union, extended to probabilities, mean over the classes that a batch has.

    The convex surrogate of mIoU (Berman et al. 2018, arXiv:1705.08790). All pixels are sorted for every class, so it
    costs more than other losses.

    Args:
        weight: factor on the loss, for a sum of several.
    """

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        target = of_each_class(labels, logits)
        known = ops.expand_dims(labelled_pixels(labels), axis=-1)
        errors = _lines(ops.abs(target - ops.softmax(logits, axis=-1)) * known)  # [K, P]
        with no_grad():
            truth, last = _lines(target), _lines((1.0 - known) * _LAST)
            steps = _steps(errors.detach() + last, truth)
            present = ops.cast(ops.max(truth, axes=(1,)) > 0.0, dtype="float32")
            share = present / ops.maximum(ops.sum(present), 1.0)
        return Loss(ops.sum(ops.sum(errors * steps, axes=(1,)) * share), labelled_images(labels))


@register("loss")
class LovaszHinge(SegmentationLoss):
    """As `LovaszSoftmax`, for two classes and margins in place of probabilities: the binary form of the same paper.

    The margin is how much the logit of class 1, the foreground, is above that of class 0.

    Args:
        weight: factor on the loss, for a sum of several.
    """

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """There are two classes."""
        classes = part.config["data.num_classes"]
        if classes is not None and classes != 2:
            text = f"is {classes}; LovaszHinge is for background and foreground, LovaszSoftmax for more classes"
            yield part.config.problem("data.num_classes", text)

    def of_pixels(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss."""
        ground, front = ops.split(logits, axis=3, sizes=(1, 1))
        known = ops.reshape(labelled_pixels(labels), shape=(1, -1))
        with no_grad():
            truth = ops.reshape(ops.cast(labels == 1, dtype="float32"), shape=(1, -1))
        errors = 1.0 - ops.reshape(front - ground, shape=(1, -1)) * (truth * 2.0 - 1.0)
        hinged = ops.relu(errors) * known
        with no_grad():
            steps = _steps(errors.detach() * known + (1.0 - known) * _LAST, truth)
            empty = ops.cast(ops.max(truth) == 0.0, dtype="float32")
        # Without foreground, the union has one pixel as soon as one is wrong: the worst one counts in full.
        return Loss(ops.sum(hinged * steps) + ops.max(hinged) * empty, labelled_images(labels))


def _lines(x: Tensor) -> Tensor:
    """[N, H, W, K] to [K, P]: a class in one piece of memory, as sorting and reading by order want it."""
    return ops.transpose(ops.flatten(x, start=0, end=2), perm=(1, 0))


def _steps(errors: Tensor, truth: Tensor) -> Tensor:
    """By how much 1 - IoU grows with each pixel that turns wrong, the largest errors first: [K, P] in errors' order.

    With the pixels so far wrong, a class has the intersection I and the union U, its own pixels and the wrong ones of
    others. One of its own takes 1 from I, a step of 1 / U; another adds 1 to U, a step of I / (U (U - 1)). As
    differences of 1 - I / U they would lose most digits.
    """
    order = ops.sort(errors, axis=1, descending=True)[1]
    own = ops.take_along_axis(truth, order, axis=1)
    total = ops.sum(own, axes=(1,), keepdims=True)
    intersection = total - ops.cumsum(own, axis=1)
    union = total + ops.cumsum(1.0 - own, axis=1)
    steps = own / ops.maximum(union, 1.0) + (1.0 - own) * intersection / (union * ops.maximum(union - 1.0, 1.0))
    return ops.put_along_axis_add(ops.full_like(steps, value=0.0), order, steps, axis=1)
