"""Detection datasets: Pascal VOC, COCO, YOLO, labelme and WIDER FACE files, and the demo's digits on photographs."""

from suites.detection.datasets.base import DetectionDataset, FileDataset
from suites.detection.datasets.coco import CocoDetection, read_coco_ground_truth
from suites.detection.datasets.digits import DigitScenes
from suites.detection.datasets.folder import DetectionFolder
from suites.detection.datasets.joined import Joined
from suites.detection.datasets.labelme import LabelmeDetection
from suites.detection.datasets.tools import CvatDetection, DatumaroDetection, ViaDetection
from suites.detection.datasets.voc import VocDetection
from suites.detection.datasets.wider import WiderFace
from suites.detection.datasets.yolo import YoloDetection

__all__ = [
    "CocoDetection",
    "CvatDetection",
    "DatumaroDetection",
    "DetectionDataset",
    "DetectionFolder",
    "DigitScenes",
    "FileDataset",
    "Joined",
    "LabelmeDetection",
    "ViaDetection",
    "VocDetection",
    "WiderFace",
    "YoloDetection",
    "read_coco_ground_truth",
]
