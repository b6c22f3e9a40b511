"""Recipe: how one batch is made from sample indices; the same code runs in workers and in process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.data.dataset import describe
from framework.data.streams import batch_rng, sample_rng
from framework.errors import DataError, PaddockError

SampleTransform = Callable[[Any, np.random.Generator], Any]
BatchTransform = Callable[[list[Any], np.random.Generator], list[Any]]


@dataclass(frozen=True)
class Task:
    """One batch to make: `number` is its place in the loader's stream, `indices` are int64 [N]."""

    number: int
    epoch: int
    batch: int
    indices: np.ndarray


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to make batches; it is sent to each worker once."""

    dataset: Any
    transforms: Sequence[SampleTransform]
    batch_transforms: Sequence[BatchTransform]
    collate: Callable[[list[Any]], Any]
    seed: int

    def make(self, task: Task) -> Any:
        """Return the batch of `task`; raise DataError that names the sample that failed."""
        samples = [self._sample(task.epoch, int(index)) for index in task.indices]
        try:
            rng = batch_rng(self.seed, task.epoch, task.batch)
            for transform in self.batch_transforms:
                samples = transform(samples, rng)
            return self.collate(samples)
        except Exception as error:
            names = ", ".join(describe(self.dataset, int(index)) for index in task.indices[:8])
            more = " ..." if len(task.indices) > 8 else ""
            where = f"batch {task.batch} of epoch {task.epoch}: {names}{more}"
            raise _located(where, error) from error

    def _sample(self, epoch: int, index: int) -> Any:
        rng = sample_rng(self.seed, epoch, index)
        try:
            draw = getattr(self.dataset, "sample", None)
            sample = self.dataset[index] if draw is None else draw(index, rng)
            for transform in self.transforms:
                sample = transform(sample, rng)
            return sample
        except Exception as error:
            raise _located(describe(self.dataset, index), error) from error


def _located(where: str, error: Exception) -> DataError:
    """Say where `error` happened; an error raised on purpose needs no traceback, a bug does."""
    if isinstance(error, PaddockError):
        return DataError(f"DataLoader: {where}: {error}")
    text = "".join(traceback.format_exception(error)).rstrip()
    return DataError(f"DataLoader: {where}: {type(error).__name__}: {error}\n{text}")
