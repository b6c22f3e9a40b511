"""The click logs that the suite reads."""

from suites.ctr.datasets.base import ClickDataset, ClickSource
from suites.ctr.datasets.logfiles import ClickLog
from suites.ctr.datasets.memory import Columns
from suites.ctr.datasets.movielens import MovieLens100K
from suites.ctr.datasets.streamed import LogPasses, LogStream

__all__ = ["ClickDataset", "ClickLog", "ClickSource", "Columns", "LogPasses", "LogStream", "MovieLens100K"]
