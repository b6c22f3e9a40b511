"""Augmentation for segmentation: random scale, random crop, blur, beside the transforms of all images; collation.

The recipe of DeepLabV3+ (Chen et al. 2018) and PaddleSeg: scale by 0.5 to 2, mirror, crop with an ignored border.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register, register_role
from suites.segmentation.sample import IGNORE, Sample
from suites.vision.pipeline import Augmented, BatchTransform, Transform
from suites.vision.pixels import IMAGENET_MEAN, check_prob, check_range, pair
from suites.vision.sample import scaled_size
from suites.vision.transforms import (
    ColorDistort,
    Letterbox,
    Normalize,
    PadToMultiple,
    RandomFlip,
    Resize,
    ResizeKeepRatio,
)

__all__ = ["Augmented", "BatchTransform", "RandomBlur", "RandomCrop", "RandomScale", "Transform", "collate"]

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
for _transform in (ColorDistort, Letterbox, Normalize, PadToMultiple, RandomFlip, Resize, ResizeKeepRatio):
    register("transform")(_transform)


@register("transform")
class RandomScale(Transform):
    """Scales the image by a random factor.

    Args:
        low, high: Limits of the factor.
        step: Only low, low + step, ... are drawn; 0 draws any number between.
    """

    def __init__(self, low: float = 0.5, high: float = 2.0, step: float = 0.0) -> None:
        self._range = check_range("RandomScale", "low and high", (low, high), 0.01)
        if step < 0:
            raise AttributeValueError(f"RandomScale: step is {step}; it must be 0 or more")
        self._step = step

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the scaled sample."""
        low, high = self._range
        if self._step:
            factor = low + self._step * int(rng.integers(int((high - low) / self._step + 1e-9) + 1))
        else:
            factor = rng.uniform(low, high)
        return sample.resized(scaled_size(sample.size, factor), cv2.INTER_LINEAR)


@register("transform")
class RandomCrop(Transform):
    """Cuts out a part of a fixed size at a random place; a smaller image gets an ignored border first.

    Args:
        size: Side of the square, or [height, width], in pixels.
        max_share: A crop in which one class has more than this share of the labelled pixels is drawn again, up to
            ten times (mmsegmentation's `cat_max_ratio`); 1 takes any.
        fill: RGB of the border, in [0, 1]; the mean colour, which normalises to 0.
    """

    def __init__(
        self, size: int | Sequence[int], max_share: float = 1.0, fill: Sequence[float] = IMAGENET_MEAN
    ) -> None:
        self._size = pair(size, "RandomCrop")
        if not 0 < max_share <= 1:
            raise AttributeValueError(f"RandomCrop: max_share is {max_share}; it must be above 0 and at most 1")
        self._max_share, self._fill = max_share, tuple(fill)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the crop."""
        height, width = (max(a, b) for a, b in zip(sample.size, self._size, strict=True))
        free = height - sample.size[0], width - sample.size[1]
        sample = sample.padded((height, width), free[0] // 2, free[1] // 2, self._fill)
        for _ in range(10 if self._max_share < 1 else 1):
            top = int(rng.integers(height - self._size[0] + 1))
            left = int(rng.integers(width - self._size[1] + 1))
            labels = sample.labels[top : top + self._size[0], left : left + self._size[1]]
            if self._max_share == 1 or largest_share(labels) <= self._max_share:
                break
        return sample.cropped(self._size, top, left)


@register("transform")
class RandomBlur(Transform):
    """Blurs the image by a Gaussian of a random width.

    Args:
        prob: How often.
        max_sigma: Largest standard deviation, in pixels; the smallest is 0.1.
    """

    def __init__(self, prob: float = 0.1, max_sigma: float = 2.0) -> None:
        self._prob = check_prob("RandomBlur", prob)
        self._range = check_range("RandomBlur", "sigma", (0.1, max_sigma), 0)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, blurred or not."""
        if rng.random() >= self._prob:
            return sample
        return sample.recoloured(cv2.GaussianBlur(sample.image, (0, 0), rng.uniform(*self._range)))


def largest_share(labels: np.ndarray) -> float:
    """Share of the most frequent class among the pixels that are not ignored; 1 where all are."""
    counts = np.bincount(labels.reshape(-1), minlength=256)
    counts[IGNORE] = 0
    return float(counts.max() / counts.sum()) if counts.any() else 1.0


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """The batch of some samples.

    Returns:
        images [N, H, W, 3], float32 or uint8 as the samples have it; labels int32 [N, H, W], `IGNORE` where nothing
        is to be learnt; image_ids int64 [N]; placements float64 [N, 4] for `labels_to_original`; truth, a list of
        uint8 [H_i, W_i], the label maps of the files.

    Raises:
        DataError: The images differ in size or type.
    """
    first = samples[0].image
    for sample in samples:
        if sample.image.shape != first.shape or sample.image.dtype != first.dtype:
            raise DataError(
                f"collate: image {sample.image_id} is {sample.image.dtype} {list(sample.image.shape)} but the first "
                f"of the batch is {first.dtype} {list(first.shape)}; end the transforms with RandomCrop, Resize or "
                "Letterbox, or use a batch_size of 1"
            )
    return {
        "images": np.stack([sample.image for sample in samples]),
        "labels": np.stack([sample.labels for sample in samples]).astype(np.int32),
        "image_ids": np.array([sample.image_id for sample in samples], np.int64),
        "placements": np.array([sample.placement for sample in samples], np.float64),
        "truth": [sample.truth for sample in samples],
    }
