"""Detectors of two stages: regions are proposed, then looked at one by one (R-CNN and its kin)."""

from suites.detection.models.rcnn.box_head import BoxHead, RoIHead
from suites.detection.models.rcnn.cascade import CascadeHead
from suites.detection.models.rcnn.detectors import CascadeRCNN, FasterRCNN, KeypointRCNN, MaskRCNN
from suites.detection.models.rcnn.keypoint_head import KeypointHead
from suites.detection.models.rcnn.mask_head import MaskHead
from suites.detection.models.rcnn.proposals import RPN, Proposals
from suites.detection.models.rcnn.regions import RegionPool, Regions, RegionSampler

__all__ = [
    "RPN",
    "BoxHead",
    "CascadeHead",
    "CascadeRCNN",
    "FasterRCNN",
    "KeypointHead",
    "KeypointRCNN",
    "MaskHead",
    "MaskRCNN",
    "Proposals",
    "RegionPool",
    "RegionSampler",
    "Regions",
    "RoIHead",
]
