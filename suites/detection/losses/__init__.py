"""Losses of detectors: on boxes, on classes, of whole heads. `register` makes those of heads a `type:` of configs."""

from suites.detection.losses.boxes import BOX_LOSSES, BoxLoss, box_loss, ciou_loss, diou_loss, giou_loss, iou_loss
from suites.detection.losses.boxes import smooth_l1 as smooth_l1
from suites.detection.losses.focal import sigmoid_focal_loss, sparse_focal_loss
from suites.detection.losses.yolov3 import YOLOv3Loss
from suites.detection.models.base import Targets
from suites.vision.mining import hardest

__all__ = [
    "BOX_LOSSES",
    "BoxLoss",
    "Targets",
    "YOLOv3Loss",
    "box_loss",
    "ciou_loss",
    "diou_loss",
    "giou_loss",
    "hardest",
    "iou_loss",
    "sigmoid_focal_loss",
    "smooth_l1",
    "sparse_focal_loss",
]
