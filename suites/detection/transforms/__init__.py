"""Augmentation for detection: sample transforms, batch transforms and collation (the recipe of YOLOv3 and SSD)."""

from suites.detection.transforms.base import Augmented, BatchTransform, MixingTransform, Transform
from suites.detection.transforms.batch import Each, collate
from suites.detection.transforms.colour import ColorDistort, Mixup, Normalize
from suites.detection.transforms.geometry import (
    DropTinyBoxes,
    Letterbox,
    PadToMultiple,
    RandomExpand,
    RandomFlip,
    RandomIoUCrop,
    RandomShape,
    Resize,
    ResizeKeepRatio,
)

__all__ = [
    "Augmented",
    "BatchTransform",
    "ColorDistort",
    "DropTinyBoxes",
    "Each",
    "Letterbox",
    "MixingTransform",
    "Mixup",
    "Normalize",
    "PadToMultiple",
    "RandomExpand",
    "RandomFlip",
    "RandomIoUCrop",
    "RandomShape",
    "Resize",
    "ResizeKeepRatio",
    "Transform",
    "collate",
]
