"""Recipe: how one batch is made from sample indices; the same code runs in workers and in process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from framework.data.dataset import describe
from framework.data.streams import batch_rng, sample_rng
from framework.errors import DataError, PaddockError

SampleTransform = Callable[[Any, np.random.Generator], Any]
BatchFunction = Callable[[list[Any], np.random.Generator], list[Any]]


_TRIES = 64  # samples in a row that may be unusable before their batch is an error


@dataclass(frozen=True)
class BatchJob:
    """One batch to make: `number` is its place in the loader's stream, `indices` are int64 [N].

    Attributes:
        instead: what takes the place of a sample that cannot be used, see `Limits`; None: such a sample is an error.
        avoid: indices of samples that cannot be used, which is known already.
    """

    number: int
    epoch: int
    batch: int
    indices: np.ndarray
    instead: Literal["another", "nothing"] | None = None
    avoid: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Made:
    """A finished batch, None where no sample of it can be used; and why samples were skipped, by index."""

    batch: Any
    skipped: dict[int, str]


class _Unusable(Exception):
    """A sample cannot be used; the argument is the error to show."""


@dataclass(frozen=True)
class Recipe:
    """Everything a worker needs to make batches; it is sent to each worker once."""

    dataset: Any
    transforms: Sequence[SampleTransform]
    batch_transforms: Sequence[BatchFunction]
    collate: Callable[[list[Any]], Any]
    seed: int

    def make(self, job: BatchJob, begin: Callable[[int], None] = lambda index: None) -> Made:
        """Return the batch of `job`; raise DataError that names the sample that failed.

        `begin` is called with the index of each sample before it is read, and with -1 before they become a batch.
        """
        if hasattr(self.dataset, "batch"):
            return self._whole_batch(job, begin)
        skipped: dict[int, str] = {}
        samples = []
        for index in job.indices:
            samples.extend(self._sample_of(job, int(index), skipped, begin))
        begin(-1)
        return Made(self._batch(job, samples) if samples else None, skipped)

    def _whole_batch(self, job: BatchJob, begin: Callable[[int], None]) -> Made:
        """Of a data set that gives whole batches, see `BatchDataset`."""
        begin(-1)
        try:
            return Made(self.dataset.batch(job.indices), {})
        except Exception as error:
            raise _located(f"batch {job.batch} of epoch {job.epoch}", error) from error

    def _batch(self, job: BatchJob, samples: list[Any]) -> Any:
        try:
            rng = batch_rng(self.seed, job.epoch, job.batch)
            for transform in self.batch_transforms:
                samples = transform(samples, rng)
            return self.collate(samples)
        except Exception as error:
            names = ", ".join(describe(self.dataset, int(index)) for index in job.indices[:8])
            more = " ..." if len(job.indices) > 8 else ""
            where = f"batch {job.batch} of epoch {job.epoch}: {names}{more}"
            raise _located(where, error) from error

    def _sample_of(self, job: BatchJob, index: int, skipped: dict[int, str], begin: Callable[[int], None]) -> list[Any]:
        """Sample `index`, or what takes its place: the next usable one of the data set, or nothing.

        Which that is depends on the data alone, so that every number of workers and a resumed run choose the same.
        """
        tries = _TRIES if job.instead == "another" else 1
        for place in range(min(tries, len(self.dataset))):
            candidate = (index + place) % len(self.dataset)
            if candidate in job.avoid:
                continue
            begin(candidate)
            try:
                return [self._sample(candidate, sample_rng(self.seed, job.epoch, index))]
            except _Unusable as error:
                skipped[candidate] = str(error)
                if job.instead is None:
                    raise DataError(f"DataLoader: {error}") from error.__cause__
        if job.instead == "another":
            reasons = "; ".join(dict.fromkeys(reason.split("\n", 1)[0] for reason in skipped.values()))
            raise DataError(f"DataLoader: no sample can take the place of sample {index}: {reasons[:2000]}")
        return []

    def _sample(self, index: int, rng: np.random.Generator) -> Any:
        try:
            draw = getattr(self.dataset, "sample", None)
            sample = self.dataset[index] if draw is None else draw(index, rng)
            for transform in self.transforms:
                sample = transform(sample, rng)
            return sample
        except (DataError, OSError) as error:
            raise _Unusable(_reason(describe(self.dataset, index), error)) from error
        except Exception as error:
            raise _located(describe(self.dataset, index), error) from error


def _located(where: str, error: Exception) -> DataError:
    return DataError(f"DataLoader: {_reason(where, error)}")


def _reason(where: str, error: Exception) -> str:
    """Say where `error` happened; an error raised on purpose needs no traceback, a bug does."""
    if isinstance(error, PaddockError):
        return f"{where}: {error}"
    text = "".join(traceback.format_exception(error)).rstrip()
    return f"{where}: {type(error).__name__}: {error}\n{text}"
