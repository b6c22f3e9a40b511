"""The roles of this suite's transforms, which are those of all images."""

from __future__ import annotations

from suites.engine.registry import register, register_role
from suites.vision.augmentation.affine import RandomAffine
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.augmentation.transforms import (
    ColorDistort,
    Letterbox,
    Normalize,
    PadToMultiple,
    RandomFlip,
    Resize,
    ResizeKeepRatio,
)

__all__ = ["BatchTransform", "Transform"]

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
for _transform in (
    ColorDistort,
    Letterbox,
    Normalize,
    PadToMultiple,
    RandomAffine,
    RandomFlip,
    Resize,
    ResizeKeepRatio,
):
    register("transform")(_transform)
