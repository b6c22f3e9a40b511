"""Data sets of good pictures, and of pictures with defects for evaluation."""

from suites.anomaly.datasets.base import AnomalyDataset
from suites.anomaly.datasets.folders import GoodBad
from suites.anomaly.datasets.mvtec import MvtecFolder

__all__ = ["AnomalyDataset", "GoodBad", "MvtecFolder"]
