"""Mixup and CutMix: two images in one, with the boxes of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.engine.registry import register
from suites.vision.augmentation.covering import Rectangle
from suites.vision.augmentation.pipeline import MixingTransform
from suites.vision.augmentation.pixels import check_prob
from suites.vision.structures import Boxes, Instances


@register("transform")
class Mixup(MixingTransform):
    """Adds another sample to this one, with weights; the boxes of both remain, weighted (Zhang et al. 2018, 2019).

    The weight w comes from Beta(alpha, beta). The canvas is as large as both; each image lies at its top left.
    A box's `score` is multiplied by w or 1 - w. Needs `Augmented`, which draws the other sample.

    Args:
        alpha, beta: Of the Beta distribution.
        prob: How often samples are mixed at all.
    """

    def __init__(self, alpha: float = 1.5, beta: float = 1.5, prob: float = 1.0) -> None:
        if alpha <= 0 or beta <= 0:
            raise AttributeValueError(f"Mixup: alpha is {alpha} and beta {beta}; both must be above 0")
        self._alpha, self._beta = alpha, beta
        self._prob = check_prob("Mixup", prob)

    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the mixture with one drawn sample; `image_id` and `placement` stay those of `sample`."""
        if rng.random() >= self._prob:
            return sample
        weight = float(rng.beta(self._alpha, self._beta))
        other = draw()
        size = max(sample.size[0], other.size[0]), max(sample.size[1], other.size[1])
        one, two = (each.padded(size, 0, 0, (0.0, 0.0, 0.0)) for each in (sample, other))
        image = cv2.addWeighted(one.image, weight, two.image, 1 - weight, 0)
        parts = [_weighted(one.instances, weight), _weighted(two.instances, 1 - weight)]
        return replace(one, image=image, instances=Instances.joined(parts))


@register("transform")
class CutMix(MixingTransform):
    """Puts a rectangle of another sample into this one, each with the boxes that it shows (Yun et al. 2019).

    The rectangle has the share 1 - w of the image, with w from Beta(alpha, alpha). The other sample is scaled to the
    size of this one first. Of each sample the objects stay of which at least `least_seen` is in sight, with what is in
    sight of their boxes. Needs `Augmented`, which draws the other sample.

    Args:
        alpha: Of the Beta distribution.
        least_seen: Share of a box that must stay in sight.
        prob: How often.
    """

    def __init__(self, alpha: float = 1.0, least_seen: float = 0.3, prob: float = 0.5) -> None:
        if alpha <= 0 or not 0 < least_seen <= 1:
            raise AttributeValueError(
                f"CutMix: alpha is {alpha} and least_seen {least_seen}; alpha must be above 0, the other in (0, 1]"
            )
        self._alpha, self._least_seen = alpha, least_seen
        self._prob = check_prob("CutMix", prob)

    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the sample with a part of a drawn one; masks are left out."""
        if rng.random() >= self._prob:
            return sample
        other = draw()
        other = other.resized(sample.size, cv2.INTER_LINEAR) if other.size != sample.size else other
        top, bottom, left, right = Rectangle.of_cutmix(sample.size, self._alpha, rng)
        image = sample.image.copy()
        image[top:bottom, left:right] = other.image[top:bottom, left:right]
        part = np.array([left, top, right, bottom], np.float32)
        kept = self._outside(replace(sample.instances, masks=None), part)
        pasted = self._inside(replace(other.instances, masks=None), part)
        return replace(sample, image=image, instances=Instances.joined([kept, pasted]))

    def _inside(self, instances: Instances, part: np.ndarray) -> Instances:
        """The objects of the other sample, cut to the part that is taken from it."""
        boxes = instances.boxes.array
        cut = np.concatenate([np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])], axis=1)
        seen = _areas(cut) >= self._least_seen * _areas(boxes)
        return replace(instances[seen], boxes=Boxes(cut[seen]))

    def _outside(self, instances: Instances, part: np.ndarray) -> Instances:
        """The objects of which enough is not covered; where a whole side of a box is covered, it ends there."""
        boxes = instances.boxes.array.copy()
        covered = np.concatenate([np.maximum(boxes[:, :2], part[:2]), np.minimum(boxes[:, 2:], part[2:])], axis=1)
        seen = _areas(boxes) - _areas(covered) >= self._least_seen * _areas(boxes)
        for axis in (0, 1):
            across = 1 - axis
            whole = (covered[:, across] <= boxes[:, across]) & (covered[:, across + 2] >= boxes[:, across + 2])
            touched = whole & (_areas(covered) > 0)
            begins = touched & (covered[:, axis] <= boxes[:, axis])
            ends = touched & (covered[:, axis + 2] >= boxes[:, axis + 2]) & ~begins
            boxes[begins, axis] = covered[begins, axis + 2]
            boxes[ends, axis + 2] = covered[ends, axis]
        return replace(instances[seen], boxes=Boxes(boxes[seen]))


def _areas(boxes: np.ndarray) -> np.ndarray:
    """[M] of boxes [M, 4]; 0 where a side is not positive."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def _weighted(instances: Instances, weight: float) -> Instances:
    return replace(instances, scores=(instances.scores * weight).astype(np.float32))
