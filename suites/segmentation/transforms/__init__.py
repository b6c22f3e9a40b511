"""Augmentation for segmentation, beside the transforms of all images; collation.

The base is the recipe of DeepLabV3+ (Chen et al. 2018) and PaddleSeg: scale by 0.5 to 2, mirror, crop with an ignored
border.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.segmentation.sample import Sample
from suites.segmentation.transforms.colours import RandomBlur, RandomClahe, RandomGamma, RandomGray, RandomNoise
from suites.segmentation.transforms.geometry import (
    LimitLong,
    RandomCrop,
    RandomQuarterTurn,
    RandomResizedCrop,
    RandomResizeKeepRatio,
    RandomScale,
    largest_share,
)
from suites.segmentation.transforms.mixing import ClassMix, CutMix, Mosaic, RandomCutOut
from suites.segmentation.transforms.roles import BatchTransform, Transform
from suites.vision.augmentation.affine import RandomAffine

__all__ = [
    "BatchTransform",
    "ClassMix",
    "CutMix",
    "LimitLong",
    "Mosaic",
    "RandomAffine",
    "RandomBlur",
    "RandomClahe",
    "RandomCrop",
    "RandomCutOut",
    "RandomGamma",
    "RandomGray",
    "RandomNoise",
    "RandomQuarterTurn",
    "RandomResizeKeepRatio",
    "RandomResizedCrop",
    "RandomScale",
    "Transform",
    "collate",
    "largest_share",
]


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
