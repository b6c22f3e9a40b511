"""Segmentation data sets: pairs of image and label files, Cityscapes."""

from suites.segmentation.datasets.base import SegmentationDataset
from suites.segmentation.datasets.cityscapes import Cityscapes
from suites.segmentation.datasets.pairs import ImageLabelPairs

__all__ = ["Cityscapes", "ImageLabelPairs", "SegmentationDataset"]
