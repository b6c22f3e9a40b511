"""Tables: rows of numbers by 64-bit keys that grow, age and leave; see docs/explanation/tables.md."""

from framework.table.hogwild import Hogwild
from framework.table.optimizer import RowOptimizer
from framework.table.policies import ByCount, ByProbability, ByScore, Eviction, Limit, Normal, Uniform, Zeros
from framework.table.rules import FTRL, SGD, Adagrad, Adam, DenseAdam
from framework.table.snapshot import TableSnapshot
from framework.table.table import Table, TableStats

__all__ = [
    "FTRL",
    "SGD",
    "Adagrad",
    "Adam",
    "ByCount",
    "ByProbability",
    "ByScore",
    "DenseAdam",
    "Eviction",
    "Hogwild",
    "Limit",
    "Normal",
    "RowOptimizer",
    "Table",
    "TableSnapshot",
    "TableStats",
    "Uniform",
    "Zeros",
]
