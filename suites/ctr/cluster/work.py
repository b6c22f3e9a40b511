"""Work: the shares of a pass over the log, who has which, and what is done. Plain data in a file, so a run continues.

A share is a worker to the shards: its pushes are numbered by its batches. Whoever takes a share on, at first or after
another one, goes on where the shards are, so each batch counts once however often its share changes hands.

A log that keeps coming has a part a pass, such as a folder. Nothing is dealt out until the next part is opened.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from framework.atomic import write_text
from framework.errors import CheckpointError
from framework.outside import read_json

FORMAT = 1


@dataclass(frozen=True)
class LogPass:
    """What a pass over a log that keeps coming reads.

    Attributes:
        name: such as "20261122/0905".
        files: digest of its files: all who read a share of it have to see the same ones.
        seen: names of this one and of those before it on the same day.
    """

    name: str
    files: str
    seen: tuple[str, ...] = ()


@dataclass
class Lease:
    """A share that somebody is at work on.

    Attributes:
        trainer: who.
        worker: number of the share among those of all passes.
        epoch: number of the pass, from 0.
        share: which of the pass.
        shares: of how many.
        incarnation: higher with each who takes the share on.
        batches: done by this trainer.
        heard: when it was heard of last, by `clock`.
        part: name of what the pass reads, of a log that keeps coming; else "".
        files: digest of its files.
    """

    trainer: str
    worker: int
    epoch: int
    share: int
    shares: int
    incarnation: int
    batches: int = 0
    heard: float = 0.0
    part: str = ""
    files: str = ""


class Work:
    """Deals out shares.

    Args:
        path: of the file.
        shares: of a pass.
        epochs: passes; None for as many as `steps` take.
        steps: batches of all trainers together, after which no more is dealt out; None for all of the passes.
        clock: seconds.
        parts: whether passes are parts of a log that keeps coming.
        trainers: that the run is made for, whether they are there or not; may be set.

    Attributes:
        epoch: the pass at hand.
        part: what it reads, or what the one before it read where `waiting`; None before the first.
        waiting: the part of the pass at hand is still to come; see `open`.
        batches: of all trainers, since the beginning of the run.

    Raises CheckpointError for a file that is damaged, or deals out another number of shares.
    """

    def __init__(
        self,
        path: Path,
        shares: int,
        epochs: int | None,
        steps: int | None,
        clock: Callable[[], float] = time.monotonic,
        *,
        parts: bool = False,
        trainers: int = 1,
    ) -> None:
        self._path, self.shares, self._epochs, self._steps, self._clock = path, shares, epochs, steps, clock
        self._lock = threading.Lock()
        self._leases: dict[str, Lease] = {}  # by trainer
        self._done: set[int] = set()  # shares of the pass at hand
        self.epoch, self.batches, self._incarnation = 0, 0, 0
        self._parts = self.waiting = parts
        self.trainers, self._units = trainers, shares
        self._ended = False
        self.part: LogPass | None = None
        if path.is_file():
            self._read()

    def lease(self, trainer: str) -> Lease | None:
        """The share that a trainer has, or a new one; None where there is none to be had now."""
        with self._lock:
            if trainer in self._leases:
                return self._leases[trainer]
            taken = {lease.share for lease in self._leases.values()} | self._done
            free = [share for share in range(self.shares) if share not in taken]
            if self.over or self.waiting or not free:
                return None
            self._incarnation = max(self._incarnation + 1, time.time_ns())
            made = Lease(
                trainer, self.epoch * self.shares + free[0], self.epoch, free[0], self.shares, self._incarnation
            )
            made.heard = self._clock()
            if self.part is not None:
                made.part, made.files = self.part.name, self.part.files
            self._leases[trainer] = made
            return made

    def beat(self, trainer: str, worker: int, batches: int) -> bool:
        """Hear that a trainer has done so many batches of a share; False where the share is no longer its own."""
        with self._lock:
            lease = self._leases.get(trainer)
            if lease is None or lease.worker != worker:
                return False
            self.batches += max(0, batches - lease.batches)
            lease.batches, lease.heard = max(batches, lease.batches), self._clock()
            return not self.over

    def done(self, trainer: str, worker: int) -> None:
        """Hear that a share is trained to its end and acknowledged by all shards."""
        with self._lock:
            lease = self._leases.get(trainer)
            if lease is not None and lease.worker == worker:
                del self._leases[trainer]
                self._done.add(lease.share)
                self._write()

    def release(self, trainer: str) -> None:
        """A trainer is gone: its share is free."""
        with self._lock:
            self._leases.pop(trainer, None)

    def silent(self, seconds: float) -> list[str]:
        """Trainers that were not heard of for so long."""
        with self._lock:
            return [t for t, lease in self._leases.items() if self._clock() - lease.heard > seconds]

    def next_pass(self) -> None:
        """Begin the next pass."""
        with self._lock:
            self.epoch, self._done, self.waiting = self.epoch + 1, set(), self._parts
            self._write()

    def open(self, part: LogPass, units: int) -> None:
        """The part of the pass at hand is there: deal it out. Shares beyond its `units` have nothing in them."""
        with self._lock:
            self.part, self.waiting = part, False
            self._units = min(units, self.shares)
            self._done = set(range(self._units, self.shares))
            self._write()

    def end(self) -> None:
        """Deal no more out: the log has ended."""
        self._ended = True

    def keep(self) -> None:
        """Write how many batches there were."""
        with self._lock:
            self._write()

    @property
    def pass_done(self) -> bool:
        """Whether all shares of the pass at hand are done."""
        return not self.waiting and len(self._done) == self.shares

    @property
    def over(self) -> bool:
        """Whether no more is dealt out."""
        by_steps = self._steps is not None and self.batches >= self._steps
        return self._ended or by_steps or (self._epochs is not None and self.epoch >= self._epochs)

    @property
    def idle(self) -> bool:
        """Whether nobody is at work."""
        return not self._leases

    @property
    def live(self) -> int:
        """How many are at work."""
        return len(self._leases)

    @property
    def together(self) -> int:
        """How many would be at work if nobody were away: as many as are wanted, and no more than shares have batches.

        Changes of the dense weights are divided by it. Divided by those at work, a batch would count for more the fewer
        there are.
        """
        return max(1, min(self.trainers, self._units))

    def _write(self) -> None:
        told = {
            "format": FORMAT,
            "shares": self.shares,
            "epoch": self.epoch,
            "done": sorted(self._done),
            "batches": self.batches,
            "incarnation": self._incarnation,
            "part": None if self.part is None else asdict(self.part),
            "waiting": self.waiting,
            "units": self._units,
        }
        write_text(self._path, json.dumps(told) + "\n")

    def _read(self) -> None:
        try:
            told: dict[str, Any] = read_json(self._path)
            if told["format"] != FORMAT:
                raise ValueError("another format")
            shares, self.epoch, self._done = int(told["shares"]), int(told["epoch"]), set(map(int, told["done"]))
            self.batches, self._incarnation = int(told["batches"]), int(told["incarnation"])
            if self._parts:
                part, self.waiting = told["part"], bool(told["waiting"])
                self.part = None if part is None else LogPass(part["name"], part["files"], tuple(part["seen"]))
            self._units = int(told.get("units", shares))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self._path}: cannot be read ({error}); begin the run anew") from None
        if shares != self.shares:
            raise CheckpointError(
                f"{self._path}: the run deals a pass out in {shares} shares, not {self.shares}, and a share is "
                "counted by "
                f"its batches; continue with -o cluster.shares={shares}"
            )


def lease_text(lease: Lease) -> dict[str, Any]:
    """A lease as plain data."""
    return asdict(lease)
