"""Augmentation for detection: sample transforms, batch transforms and collation (the recipe of YOLOv3 and SSD)."""

from suites.engine.registry import register, register_role
from suites.vision.augmentation.affine import RandomAffine
from suites.vision.augmentation.covering import GridMask, RandomErasing
from suites.vision.augmentation.pipeline import Augmented, BatchTransform, MixingTransform, Transform
from suites.vision.augmentation.transforms import (
    ColorDistort,
    Letterbox,
    Normalize,
    PadToMultiple,
    RandomFlip,
    Resize,
    ResizeKeepRatio,
)
from suites.vision.ordering import ClassAware, RepeatFactor

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
for _order in (ClassAware, RepeatFactor):
    register("order")(_order)
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
_SHARED: tuple[type[Transform], ...] = (
    *(ColorDistort, GridMask, Letterbox, Normalize, PadToMultiple, RandomAffine),
    *(RandomErasing, RandomFlip, Resize, ResizeKeepRatio),
)
for _transform in _SHARED:
    register("transform")(_transform)

from suites.detection.transforms.auto_augment import AutoAugment  # noqa: E402  (registers for the roles above)
from suites.detection.transforms.batch import Each, collate, padded_size  # noqa: E402  (registers for the roles above)
from suites.detection.transforms.faces import DataAnchorSampling  # noqa: E402
from suites.detection.transforms.geometry import (  # noqa: E402
    DropTinyBoxes,
    RandomCrop,
    RandomExpand,
    RandomIoUCrop,
    RandomShape,
)
from suites.detection.transforms.mixup import CutMix, Mixup  # noqa: E402
from suites.detection.transforms.mosaic import CopyPaste, Mosaic  # noqa: E402

__all__ = [
    "Augmented",
    "AutoAugment",
    "BatchTransform",
    "ClassAware",
    "ColorDistort",
    "CopyPaste",
    "CutMix",
    "DataAnchorSampling",
    "DropTinyBoxes",
    "Each",
    "GridMask",
    "Letterbox",
    "MixingTransform",
    "Mixup",
    "Mosaic",
    "Normalize",
    "PadToMultiple",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomExpand",
    "RandomFlip",
    "RandomIoUCrop",
    "RandomShape",
    "RepeatFactor",
    "Resize",
    "ResizeKeepRatio",
    "Transform",
    "collate",
    "padded_size",
]
