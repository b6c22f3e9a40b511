"""The nouns that suites of pictures and clips share."""

from suites.vision.structures.boxes import Boxes, pairwise_iou
from suites.vision.structures.features import Features, ragged
from suites.vision.structures.image_list import ImageList
from suites.vision.structures.instances import Instances
from suites.vision.structures.masks import Masks, Patch, corners_of, encode, merged, runs_of

__all__ = [
    "Boxes",
    "Features",
    "ImageList",
    "Instances",
    "Masks",
    "Patch",
    "corners_of",
    "encode",
    "merged",
    "pairwise_iou",
    "ragged",
    "runs_of",
]
