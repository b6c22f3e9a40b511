"""DataLoader: batches of a dataset in a deterministic order, prepared ahead by worker processes.

    with DataLoader(dataset, 8, shuffle=True, seed=0, workers=2, transforms=[flip]) as loader:
        for batch in loader:            # one epoch
            ...

Batches are the same for any number of workers, and `state_dict` continues in the middle of an epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from framework.data.collate import collate as stack
from framework.data.dataset import BatchDataset, Dataset, RandomDataset
from framework.data.faults import FaultPolicy, Skipped
from framework.data.pool import Hung, WorkerPool
from framework.data.recipe import BatchFunction, BatchJob, Made, Recipe, SampleTransform
from framework.data.sampler import BatchSampler, FixedBatches, Sampler, SequentialSampler, ShuffledSampler
from framework.data.source import SourceBase
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, CheckpointError, DataError, WorkerError


class DataLoader(SourceBase):
    """Makes batches: order, samples, transforms, collate.

    Args:
        dataset: see `Dataset`, `RandomDataset` and `BatchDataset`.
        batch_size: samples in a batch.
        shuffle: visit the samples in an order drawn from (seed, epoch), else in the dataset's order.
        seed: of the order and of every transform.
        workers: processes that make batches; 0 makes them in this process, with the same result.
        prefetch: batches kept ready or in the making, for each worker.
        drop_last: leave out the last batch of an epoch if it is short.
        transforms: each takes (sample, rng) and returns a sample; the generator depends on
            (seed, epoch, index).
        batch_transforms: each takes (list of samples, rng) and returns a list; the generator depends on
            (seed, epoch, batch).
        collate: takes the list of samples and returns the batch; stacks them key by key by default.
        batch_sampler: an order of one's own, in place of batch_size, shuffle and drop_last.
        worker_init: called with the worker's rank when it starts.
        start_method: how processes start, `forkserver` where possible by default (see `framework.data.pool`).
        faults: what becomes of unusable samples; by default the first one is an error. May be replaced before the
            first batch.

    Iterating gives one whole epoch, numbered `epoch`. `stream()` continues from the current position for
    ever, which is what training needs. Only the newest iterator is valid.

    Samples that cannot be used are in `skipped`.

    Arrays of a batch made by workers are views of shared memory. The memory is used again once no array of
    the batch is referenced any more, so a batch may be kept as long as one likes.
    """

    def __init__(
        self,
        dataset: Dataset | RandomDataset | BatchDataset,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        workers: int = 0,
        prefetch: int = 2,
        drop_last: bool = False,
        transforms: Sequence[SampleTransform] = (),
        batch_transforms: Sequence[BatchFunction] = (),
        collate: Callable[[list[Any]], Any] = stack,
        batch_sampler: BatchSampler | None = None,
        worker_init: Callable[[int], None] | None = None,
        start_method: str | None = None,
        faults: FaultPolicy = FaultPolicy(),  # noqa: B008  (frozen)
    ) -> None:
        if workers < 0 or prefetch < 1:
            raise AttributeValueError(
                f"DataLoader: workers is {workers} and prefetch {prefetch}; they must be at least 0 and 1"
            )
        self.world = ALONE
        self._own_order = batch_sampler is not None
        self._drop_last = drop_last
        if batch_sampler is None:
            sampler = ShuffledSampler(len(dataset), seed=seed) if shuffle else SequentialSampler(len(dataset))
            batch_sampler = FixedBatches(sampler, batch_size, drop_last=drop_last)
        self._batches = batch_sampler
        self._recipe = Recipe(dataset, tuple(transforms), tuple(batch_transforms), collate, seed)
        self._identity: dict[str, int] = {
            "seed": seed,
            "samples": len(dataset),
            "batch_size": batch_size,
            "batches": len(batch_sampler),
            "shuffle": shuffle,
        }
        self._workers = workers
        self._ahead = workers * prefetch
        self._worker_init = worker_init
        self._start_method = start_method
        self._pool: WorkerPool | None = None
        self.faults = faults
        self.skipped = Skipped(len(dataset))
        self._position = 0  # batches given out since epoch 0
        self._iteration = 0
        self.wait_seconds = 0.0

    def split(self, world: World) -> None:
        """From now on give out the part of one of several processes; `batch_size` is that of each of them.

        Raises AttributeValueError where the order is the caller's own, which says nothing of processes.
        """
        if world == self.world:
            return
        if self._own_order:
            raise AttributeValueError(
                f"DataLoader: rank {world.rank} of {world.size} cannot have a part of a batch_sampler of one's own; "
                "give one that makes this process's batches"
            )
        size, seed = self._identity["samples"], self._identity["seed"]
        sampler: Sampler = SequentialSampler(size, world=world)
        if self._identity["shuffle"]:
            sampler = ShuffledSampler(size, seed=seed, world=world)
        self._batches = FixedBatches(sampler, self.batch_size, drop_last=self._drop_last)
        self._identity |= {"batches": len(self._batches), "rank": world.rank, "processes": world.size}
        self.world = world

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def length(self) -> int:
        """Batches an epoch has; None for a `StreamLoader`."""
        return len(self)

    @property
    def dataset(self) -> Any:
        """The dataset that is read."""
        return self._recipe.dataset

    @property
    def batch_size(self) -> int:
        """Samples in a full batch."""
        return self._identity["batch_size"]

    @property
    def epoch(self) -> int:
        """The epoch the next batch belongs to, from 0."""
        return self._position // len(self)

    @property
    def batch(self) -> int:
        """The place of the next batch in its epoch, from 0."""
        return self._position % len(self)

    def __iter__(self) -> Iterator[Any]:
        """Give one whole epoch, from its first batch, also where an earlier pass was left in the middle."""
        self.seek(self.epoch)
        return self._run(self._position + len(self))

    def stream(self) -> Iterator[Any]:
        """Continue from the current position, epoch after epoch, without end."""
        return self._run(None)

    def seek(self, epoch: int, batch: int = 0) -> None:
        """Move to a batch; the next one given out is this."""
        self._position = epoch * len(self) + batch

    def mark(self) -> tuple[int, int]:
        """The position: epoch and batch."""
        return self.epoch, self.batch

    def rewind(self, mark: tuple[int, int]) -> None:
        """Go back to a position that `mark` returned."""
        self.seek(*mark)

    def start(self) -> None:
        """Start the workers now, so that they load while the caller does something else."""
        if self._pool is None and self._workers:
            self._pool = WorkerPool(self._recipe, self._workers, self._start_method, self._worker_init, self.faults)

    def close(self) -> None:
        """Stop the workers; iterating again starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position, what it depends on, and what was skipped so far; fit for JSON."""
        skipped = {"skipped": self.skipped.state_dict()}
        return {"epoch": self.epoch, "batch": self.batch, **self._identity, **skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if this loader has other batches."""
        for key, mine in self._identity.items():
            if state.get(key) != mine:
                raise CheckpointError(
                    f"DataLoader: the saved position has {key} {state.get(key)} but this loader has {mine}; "
                    "an exact continuation needs the same data, batch size and seed"
                )
        self.skipped.load_state_dict(state["skipped"])
        self.seek(state["epoch"], state["batch"])

    def _run(self, end: int | None) -> Iterator[Any]:
        """Give out batches until position `end`, keeping the workers busy ahead."""
        self._iteration += 1
        mine, submitted = self._iteration, self._position
        self.start()
        if self._pool is not None:
            self._pool.discard()
        while end is None or self._position < end:
            number = self._position
            started = time.perf_counter()
            try:
                while submitted < number + self._ahead and (end is None or submitted < end):
                    self._submit(submitted)
                    submitted += 1
                batch = self._take(number)
            except DataError:
                raise
            except BaseException:  # a dead worker, or Ctrl-C in the middle of a message
                self.close()
                raise
            self.wait_seconds += time.perf_counter() - started
            self._position += 1
            if batch is None:  # no sample of it can be used
                continue
            yield batch
            del batch  # or its memory could not be used again before the next one is there
            if self._iteration != mine or self._position != number + 1:
                raise RuntimeError("DataLoader: this iterator has ended: the loader was moved or iterated anew")

    def _job(self, number: int) -> BatchJob:
        epoch, batch = divmod(number, len(self))
        instead = self.faults.instead if self.faults.skipped else None
        place = batch * self.world.size + self.world.rank  # among the batches of all processes, which draw apart
        return BatchJob(number, epoch, place, self._batches.batch(epoch, batch), instead, self.skipped.hung)

    def _submit(self, number: int) -> None:
        if self._pool is not None:
            self._pool.submit(self._job(number))

    def _take(self, number: int) -> Any:
        made = self._recipe.make(self._job(number)) if self._pool is None else self._taken(self._pool, number)
        self.skipped.add(made.skipped, self.faults)
        return made.batch

    def _taken(self, pool: WorkerPool, number: int) -> Made:
        while True:
            try:
                return pool.take(number)
            except Hung as hung:
                if self.faults.hung == "end" or not self.faults.skipped or hung.sample < 0:
                    raise WorkerError(
                        f"DataLoader: {hung}, so it was stopped; look at the file and the transforms, "
                        "or allow more time"
                    ) from None
                self.skipped.add_hung(hung.sample)
                self.skipped.add({hung.sample: str(hung)}, self.faults)
                pool.restart(hung, self.skipped.hung)
