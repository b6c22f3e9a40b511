"""StreamLoader: batches of a source without a length, whose position can be saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from framework.data.collate import collate as stack
from framework.data.faults import FaultPolicy, Skipped
from framework.data.recipe import SampleTransform
from framework.data.source import Endless
from framework.data.streams import sample_rng
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, CheckpointError, DataError


class Stream(Protocol):
    """Samples one after the other, such as a log that grows, or numbers drawn on the fly."""

    def __iter__(self) -> Iterator[Any]:
        """Go on from the position; where it ends, iterating again starts anew."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position behind the last sample given out, fit for JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position that `state_dict` returned."""


class StreamLoader(Endless):
    """Makes batches of a stream, in this process.

    Args:
        source: the stream.
        batch_size: samples in a batch.
        seed: of the transforms.
        transforms: each takes (sample, rng) and returns a sample; the generator depends on (seed, sample number).
        collate: takes the list of samples and returns the batch.

    Attributes:
        length: None; a `DataLoader` has the number of its batches there.
        faults, skipped: as those of a `DataLoader`. Nothing is skipped: a sample that raises an error ends the pass.
        wait_seconds: time that batches took.
    """

    def __init__(
        self,
        source: Stream,
        batch_size: int = 1,
        *,
        seed: int = 0,
        transforms: Sequence[SampleTransform] = (),
        collate: Callable[[list[Any]], Any] = stack,
    ) -> None:
        if batch_size < 1:
            raise AttributeValueError(f"StreamLoader: batch_size is {batch_size}; it must be 1 or more")
        self.dataset, self.batch_size = source, batch_size
        self.faults, self.skipped = FaultPolicy(), Skipped(0)
        self.world = ALONE
        self.wait_seconds = 0.0
        self._seed, self._transforms, self._collate = seed, transforms, collate
        self._taken = 0  # samples of the source, those of other processes included

    def __iter__(self) -> Iterator[Any]:
        return self.stream()

    def split(self, world: World) -> None:
        """From now on give out every `world.size`-th sample."""
        self.world = world

    def stream(self) -> Iterator[Any]:
        """Give batches from the current position on, without end."""
        samples = self._samples()
        while True:
            started = time.perf_counter()
            batch = self._collate([next(samples) for _ in range(self.batch_size)])
            self.wait_seconds += time.perf_counter() - started
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position, fit for JSON."""
        return {**self._identity(), "taken": self._taken, "source": self.dataset.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if this loader makes other batches."""
        for key, mine in self._identity().items():
            if state.get(key) != mine:
                raise CheckpointError(
                    f"StreamLoader: the saved position has {key} {state.get(key)} but this loader has {mine}"
                )
        self._taken = state["taken"]
        self.dataset.load_state_dict(state["source"])

    def _identity(self) -> dict[str, int]:
        place = {"rank": self.world.rank, "processes": self.world.size}
        return {"seed": self._seed, "batch_size": self.batch_size, **place}

    def _samples(self) -> Iterator[Any]:
        while True:
            before = self._taken
            for sample in self.dataset:
                number = self._taken
                self._taken += 1
                if number % self.world.size == self.world.rank:
                    yield self._transformed(sample, number)
            if self._taken == before:
                raise DataError("StreamLoader: the source gives no sample; check its path and filters")

    def _transformed(self, sample: Any, number: int) -> Any:
        rng = sample_rng(self._seed, 0, number)
        for transform in self._transforms:
            sample = transform(sample, rng)
        return sample
