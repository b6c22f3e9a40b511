"""Source: what gives batches to a training. SourceBase and Endless: what they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

from framework.data.faults import FaultPolicy
from framework.data.world import World


class Source(Protocol):
    """What gives batches: a `DataLoader`, a `StreamLoader`, a `LogReader`, `LogFolders` or a `LogTail`.

    Attributes:
        world: which part of the data this process has.
        faults: what becomes of samples that cannot be used.
        wait_seconds: time that batches took so far.
    """

    world: World
    faults: FaultPolicy
    wait_seconds: float

    @property
    def dataset(self) -> Any:
        """What is read; it may have no length."""

    @property
    def batch_size(self) -> int:
        """Samples in a full batch."""

    @property
    def length(self) -> int | None:
        """Batches of an epoch; None where they are not counted."""

    @property
    def passes_over(self) -> int:
        """How many passes over the data have ended; 0 where epochs are counted by `length`."""

    @property
    def ended(self) -> bool:
        """Whether no batch comes after those that were given out."""

    @property
    def skipped(self) -> Any:
        """What could not be used, see `framework.data.faults`."""

    def __enter__(self) -> Self:
        """Return itself; closed at the end of the block."""

    def __exit__(self, *error: object) -> None:
        """Close."""

    def split(self, world: World) -> None:
        """From now on give out the part of one of several processes."""

    def stream(self) -> Iterator[Any]:
        """Continue from the current position, epoch after epoch."""

    def mark(self) -> Any:
        """Return the position, to `rewind` to; None where it cannot go back."""

    def rewind(self, mark: Any) -> None:
        """Go back to a position that `mark` returned, within the same process."""

    def start(self) -> None:
        """Start workers or threads, so that they read while the caller does something else."""

    def close(self) -> None:
        """Stop workers or threads."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position and what it depends on, fit for JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if other batches would be made."""


class SourceBase:
    """What all sources share: closed at the end of a `with` block, and batches without an end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def passes_over(self) -> int:
        """How many passes have ended; 0 where `length` counts epochs, or where no pass ever ends."""
        return 0

    @property
    def ended(self) -> bool:
        """Whether no further batch comes; by default they go on without an end."""
        return False

    def close(self) -> None:
        """Stop workers or threads; by default there are none."""


class Endless(SourceBase):
    """Base of sources without a length, which cannot go back."""

    length: None = None

    def mark(self) -> None:
        """None: there is no way back."""

    def rewind(self, mark: Any) -> None:
        """Never called, as `mark` returns None."""
        raise AssertionError(f"{type(self).__name__} has no way back")

    def start(self) -> None:
        """Do nothing: there are no workers."""
