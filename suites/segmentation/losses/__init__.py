"""Losses of segmentation, made of operators and traced into the training Program."""

from suites.segmentation.losses.base import SegmentationLoss
from suites.segmentation.losses.counts import ClassCounts
from suites.segmentation.losses.pixels import (
    BalancedCrossEntropy,
    BinaryCrossEntropy,
    CrossEntropy,
    Focal,
    OhemCrossEntropy,
)
from suites.segmentation.losses.regions import Dice, LovaszHinge, LovaszSoftmax
from suites.segmentation.losses.weights import WeightedLoss

__all__ = [
    "BalancedCrossEntropy",
    "BinaryCrossEntropy",
    "ClassCounts",
    "CrossEntropy",
    "Dice",
    "Focal",
    "LovaszHinge",
    "LovaszSoftmax",
    "OhemCrossEntropy",
    "SegmentationLoss",
    "WeightedLoss",
]
