"""Data sets of points: COCO's and MPII's JSON, labelme, CVAT, and tables of one object a picture."""

from suites.keypoints.datasets.coco import CocoKeypoints
from suites.keypoints.datasets.cvat import CvatKeypoints
from suites.keypoints.datasets.labelme import LabelmeKeypoints
from suites.keypoints.datasets.mpii import MpiiKeypoints
from suites.keypoints.datasets.table import PointTable

__all__ = ["CocoKeypoints", "CvatKeypoints", "LabelmeKeypoints", "MpiiKeypoints", "PointTable"]
