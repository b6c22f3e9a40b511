"""Detection datasets: Pascal VOC, COCO, YOLO, labelme and WIDER FACE files, and the demo's digits on photographs."""

from suites.detection.datasets.base import DetectionDataset as DetectionDataset
from suites.detection.datasets.base import FileDataset as FileDataset
from suites.detection.datasets.coco import CocoDetection as CocoDetection
from suites.detection.datasets.coco import read_coco_ground_truth as read_coco_ground_truth
from suites.detection.datasets.digits import DigitScenes as DigitScenes
from suites.detection.datasets.folder import DetectionFolder as DetectionFolder
from suites.detection.datasets.joined import Joined as Joined
from suites.detection.datasets.labelme import LabelmeDetection as LabelmeDetection
from suites.detection.datasets.tools import CvatDetection as CvatDetection
from suites.detection.datasets.tools import DatumaroDetection as DatumaroDetection
from suites.detection.datasets.tools import ViaDetection as ViaDetection
from suites.detection.datasets.voc import VocDetection as VocDetection
from suites.detection.datasets.wider import WiderFace as WiderFace
from suites.detection.datasets.yolo import YoloDetection as YoloDetection
