"""Data sets of points: COCO's keypoint JSON, and tables of one object a picture."""

from suites.keypoints.datasets.coco import CocoKeypoints
from suites.keypoints.datasets.table import PointTable

__all__ = ["CocoKeypoints", "PointTable"]
