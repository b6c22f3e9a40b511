"""Mixup: two images in one, with the boxes of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.engine.registry import register
from suites.vision.pipeline import MixingTransform
from suites.vision.pixels import check_prob
from suites.vision.structures import Instances


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


def _weighted(instances: Instances, weight: float) -> Instances:
    return replace(instances, scores=(instances.scores * weight).astype(np.float32))
