"""Transforms of objects with points: crops around a box, half a body, and those that all pictures have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.errors import AttributeValueError
from suites.engine.config import Part
from suites.engine.registry import register, register_role
from suites.keypoints.sample import PoseSample
from suites.vision.augmentation.covering import RandomErasing
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import check_prob, pair
from suites.vision.augmentation.transforms import ColorDistort, Normalize, RandomFlip
from suites.vision.structures import Boxes

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
for _transform in (ColorDistort, Normalize, RandomErasing, RandomFlip):
    register("transform")(_transform)

_LEAST = 3  # points of a half


@register("transform")
class ObjectCrop(Transform):
    """The object, upright, in a picture of one size: its box grows to that aspect ratio, then by `padding`.

    Args:
        size: Side of the square, or [height, width], in pixels.
        padding: Factor on the box.
        scale: Largest random change of that factor, as a share: 0.35 draws from 0.65 to 1.35. For training only.
        shift: Largest random shift, as a share of the box. For training only.
        degrees: Largest random turn, to either side. For training only.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: float = 1.25,
        scale: float = 0.0,
        shift: float = 0.0,
        degrees: float = 0.0,
    ) -> None:
        self._size = pair(size, "ObjectCrop")
        if padding <= 0 or not 0 <= scale < 1 or shift < 0 or not 0 <= degrees <= 180:
            raise AttributeValueError(
                f"ObjectCrop: padding is {padding}, scale {scale}, shift {shift}, degrees {degrees}; padding is "
                "positive, scale in [0, 1), shift 0 or more, degrees 0 to 180"
            )
        self._padding, self._scale, self._shift, self._degrees = padding, scale, shift, degrees

    def __call__(self, sample: PoseSample, rng: np.random.Generator) -> PoseSample:
        """Returns the crop."""
        x1, y1, x2, y2 = sample.instances.boxes.array[0].astype(np.float64)
        height, width = self._size
        grown = max((y2 - y1) / height, (x2 - x1) / width, 1e-3) * self._padding
        centre, turn = np.array([x1 + x2, y1 + y2]) / 2, 0.0
        if self._scale or self._shift or self._degrees:
            grown *= 1 + rng.uniform(-self._scale, self._scale)
            centre = centre + rng.uniform(-self._shift, self._shift, 2) * (x2 - x1, y2 - y1)
            turn = math.radians(rng.uniform(-self._degrees, self._degrees))
        cos, sin = math.cos(turn) / grown, math.sin(turn) / grown
        linear = np.array([[cos, -sin], [sin, cos]])
        return sample.cut(np.column_stack([linear, np.array([width, height]) / 2 - linear @ centre]), self._size)

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """Its size."""
        yield "size", part["size"]


@register("transform")
class HalfBody(Transform):
    """The box around the upper or the lower half of an object, whose points it then shows (Wang et al. 2018).

    Args:
        upper: names of the points of the upper half.
        prob: How often, of objects with 4 labelled points a half or more.
        padding: Factor on the box around the points.
    """

    def __init__(self, upper: Sequence[str], prob: float = 0.3, padding: float = 1.5) -> None:
        self._upper, self._padding = tuple(upper), padding
        self._prob = check_prob("HalfBody", prob)

    def __call__(self, sample: PoseSample, rng: np.random.Generator) -> PoseSample:
        """Returns the sample with another box, or as it was. DataError for a name that no point has."""
        points, pose = sample.instances.keypoints, sample.instances.pose
        if points is None or pose is None or rng.random() >= self._prob:
            return sample
        above = np.isin(np.arange(len(pose.names)), [pose.number(name) for name in self._upper])
        seen = points[0, :, 2] > 0
        halves = [points[0, seen & half, :2] for half in (above, ~above) if (seen & half).sum() > _LEAST]
        if not halves:
            return sample
        half = halves[int(rng.integers(len(halves)))]
        centre, reach = (half.max(axis=0) + half.min(axis=0)) / 2, np.ptp(half, axis=0) / 2 * self._padding
        box = np.array([[*(centre - reach), *(centre + reach)]], np.float32)
        return replace(sample, instances=replace(sample.instances, boxes=Boxes(box)))
