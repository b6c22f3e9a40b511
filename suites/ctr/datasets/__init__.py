"""The click logs that the suite reads."""

from suites.ctr.datasets.base import ClickDataset
from suites.ctr.datasets.delimited import ClickLog
from suites.ctr.datasets.memory import Columns
from suites.ctr.datasets.movielens import MovieLens100K

__all__ = ["ClickDataset", "ClickLog", "Columns", "MovieLens100K"]
