"""Transforms for faces: crops that bring a face to the size of some anchor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.detection.transforms.geometry import cropped
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob
from suites.vision.sample import scaled_size


@register("transform")
class DataAnchorSampling(Transform):
    """Scales and cuts the image so that a random face gets about the size of a random anchor (PyramidBox, Tang 2018).

    A face is drawn; of the anchor sizes up to the next larger one than the face has, one is drawn; the face is to have
    that size times 2^u, u uniform in [-1, 1). The crop of `size` pixels then holds the face; what lies outside of the
    image is filled. So large faces give many small ones, and small ones are enlarged a little. An enlarged crop has
    fewer than `size` pixels: put `Resize` behind.

    Args:
        size: side of the crop, in pixels of the scaled image.
        anchors: sizes, ascending: the square root of a face's area.
        prob: How often.
        fill: RGB of what lies outside, in [0, 1].
    """

    def __init__(
        self,
        size: int = 640,
        anchors: Sequence[float] = (16, 32, 64, 128),
        prob: float = 1.0,
        fill: Sequence[float] = IMAGENET_MEAN,
    ) -> None:
        if size < 1 or not anchors or list(anchors) != sorted(anchors) or anchors[0] <= 0:
            raise AttributeValueError(
                f"DataAnchorSampling: size is {size}, anchors {list(anchors)}; size must be 1 or more, anchors "
                "positive and ascending"
            )
        self._size, self._anchors, self._fill = size, np.asarray(anchors, np.float64), tuple(fill)
        self._prob = check_prob("DataAnchorSampling", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the crop, or the sample as it was."""
        faces = np.flatnonzero(~sample.instances.crowd & (sample.instances.boxes.areas > 0))
        if rng.random() >= self._prob or not len(faces):
            return sample
        chosen = int(rng.choice(faces))
        side = float(np.sqrt(sample.instances.boxes.areas[chosen]))
        scale = self._target(side, rng) / side
        if scale < 1:
            sample = sample.scaled(scaled_size(sample.size, scale))
        extent = self._size if scale < 1 else max(1, round(self._size / scale))
        return self._cut(sample, chosen, extent, rng)

    def _target(self, side: float, rng: np.random.Generator) -> float:
        nearest = int(np.argmin(np.abs(np.log(self._anchors / side))))
        most = min(nearest + 1, len(self._anchors) - 1)
        return float(self._anchors[rng.integers(most + 1)] * 2 ** rng.uniform(-1, 1))

    def _cut(self, sample: Sample, chosen: int, extent: int, rng: np.random.Generator) -> Sample:
        """A square of `extent` pixels around a face, at a random place; at least as large as the face."""
        x1, y1, x2, y2 = sample.instances.boxes.array[chosen].astype(np.float64)
        extent = max(extent, int(np.ceil(max(x2 - x1, y2 - y1))))
        left = int(np.floor(rng.uniform(min(x2 - extent, x1), x1)))
        top = int(np.floor(rng.uniform(min(y2 - extent, y1), y1)))
        height, width = sample.size
        before = max(0, -top), max(0, -left)
        after = max(0, top + extent - height), max(0, left + extent - width)
        size = height + before[0] + after[0], width + before[1] + after[1]
        sample = sample.padded(size, before[0], before[1], self._fill)
        left, top = left + before[1], top + before[0]
        return cropped(sample, np.array([left, top, left + extent, top + extent]))
