"""Data sets of metric learning: folders of classes divided by class, and lists of pairs to verify."""

from suites.retrieval.datasets.folders import ClassFolders
from suites.retrieval.datasets.pairs import PairList

__all__ = ["ClassFolders", "PairList"]
