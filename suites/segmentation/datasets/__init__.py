"""Segmentation data sets: pairs of image and label files, labelme's shapes, Cityscapes, ADE20K, Pascal VOC."""

from suites.segmentation.datasets.ade20k import Ade20k
from suites.segmentation.datasets.base import SegmentationDataset
from suites.segmentation.datasets.cityscapes import Cityscapes
from suites.segmentation.datasets.folder import SegmentationFolder
from suites.segmentation.datasets.joined import Joined
from suites.segmentation.datasets.labelme import LabelmeSegmentation
from suites.segmentation.datasets.pairs import ImageLabelPairs
from suites.segmentation.datasets.voc import VocSegmentation

__all__ = [
    "Ade20k",
    "Cityscapes",
    "ImageLabelPairs",
    "Joined",
    "LabelmeSegmentation",
    "SegmentationDataset",
    "SegmentationFolder",
    "VocSegmentation",
]
