"""Detection datasets: Pascal VOC folders, COCO files, WIDER FACE, and the demo's digits on photographs."""

from suites.detection.datasets.base import DetectionDataset, FileDataset
from suites.detection.datasets.coco import CocoDetection, read_coco_ground_truth
from suites.detection.datasets.digits import DigitScenes
from suites.detection.datasets.voc import VocDetection
from suites.detection.datasets.wider import WiderFace

__all__ = [
    "CocoDetection",
    "DetectionDataset",
    "DigitScenes",
    "FileDataset",
    "VocDetection",
    "WiderFace",
    "read_coco_ground_truth",
]
