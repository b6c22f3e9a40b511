"""Data loading: datasets, orders, per-sample transforms and batches that worker processes prepare ahead.

Content and order of batches depend on (seed, epoch, index) alone, never on the number of workers.
"""

from framework.data.collate import collate
from framework.data.dataset import BatchDataset, Dataset, RandomDataset, describe
from framework.data.faults import FaultPolicy, Skipped
from framework.data.loader import DataLoader
from framework.data.mixed import Mixed
from framework.data.ragged import RaggedCollate, TokenBatches
from framework.data.sampler import BatchSampler, FixedBatches, Sampler, SequentialSampler, ShuffledSampler
from framework.data.source import Source
from framework.data.stream_loader import Stream, StreamLoader
from framework.data.streams import batch_rng, order_rng, sample_rng
from framework.data.world import World

__all__ = [
    "BatchDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FaultPolicy",
    "FixedBatches",
    "Mixed",
    "RaggedCollate",
    "RandomDataset",
    "Sampler",
    "SequentialSampler",
    "ShuffledSampler",
    "Skipped",
    "Source",
    "Stream",
    "StreamLoader",
    "TokenBatches",
    "World",
    "batch_rng",
    "collate",
    "describe",
    "order_rng",
    "sample_rng",
]
