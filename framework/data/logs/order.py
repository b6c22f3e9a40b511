"""LogOrder: in which order the blocks of a log's files are read, and a cursor in it that is plain JSON data.

The units of all files (framework.data.logs.files) stand in their order, or in one drawn from (seed, epoch). With more
than one process, process r of P takes units r, r + P, ... of it. A compressed file is one unit with many blocks: in a
drawn order several of them are open at the same time, and give a block in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from framework.data.logs.files import LogFile, TextBlock
from framework.data.streams import order_rng
from framework.data.world import World
from framework.errors import DataError

Submit = Callable[..., "Future[Any]"]


class Block(NamedTuple):
    """A block to be parsed: a unit of a file, or lines of a compressed one."""

    file: LogFile
    unit: int
    text: TextBlock | None


class _Lane:
    """A compressed file that is being read: one block ahead, in another thread."""

    def __init__(self, unit: int, file: LogFile, done: int, submit: Submit) -> None:
        self.unit, self.file, self.done = unit, file, done
        self._blocks, self._submit = file.blocks(), submit
        self._next = submit(_skip, self._blocks, done)

    @property
    def ready(self) -> bool:
        return self._next.done()

    def take(self) -> TextBlock | None:
        """The next block; None behind the last one."""
        block = self._next.result()
        if block is not None:
            self.done += 1
            self._next = self._submit(_skip, self._blocks, 0)
        return block


def _skip(blocks: Iterator[TextBlock], count: int) -> TextBlock | None:
    for _ in range(count):
        next(blocks, None)
    return next(blocks, None)


class LogOrder:
    """The blocks of one epoch, one after the other.

    Args:
        files: of the log.
        seed: of the order; None for the files' own.
        epoch: to draw for.
        world: which part of the units is this process's.
        interleave: compressed files that are open at the same time, in a drawn order.
        submit: runs a function in another thread.
        cursor: where to begin, from `cursor`.
    """

    def __init__(
        self,
        files: Sequence[LogFile],
        seed: int | None,
        epoch: int,
        world: World,
        interleave: int,
        submit: Submit,
        cursor: dict[str, Any] | None = None,
    ) -> None:
        self._files, self._submit = files, submit
        counts = [file.units for file in files]
        order = np.arange(sum(counts))
        if seed is not None:
            order = order_rng(seed, epoch).permutation(order)
        self._order = order[world.rank :: world.size]
        self._ends = np.cumsum(counts)
        count = interleave if seed is not None and any(file.compressed for file in files) else 1
        self._lanes: list[_Lane | None] = [None] * count
        self._next = self._turn = 0
        if cursor is not None:
            self._next, self._turn = cursor["next"], cursor["turn"]
            self._lanes = [None if lane is None else self._open(*lane) for lane in cursor["lanes"]]

    def cursor(self) -> dict[str, Any]:
        """Where the next block is, fit for JSON."""
        lanes = [None if lane is None else [lane.unit, lane.done] for lane in self._lanes]
        return {"next": self._next, "turn": self._turn, "lanes": lanes}

    @property
    def ready(self) -> bool:
        """Whether `take` gives the next block without waiting."""
        lane = self._lanes[self._turn]
        return lane is None or lane.ready

    def take(self) -> Block | None:
        """The next block; None behind the last one.

        Raises DataError where a compressed file cannot be read on; the next call goes on with the next one.
        """
        idle = 0
        while idle < len(self._lanes):
            block = self._take_from(self._turn)
            self._turn = (self._turn + 1) % len(self._lanes)
            if block is not None:
                return block
            idle += 1
        return None

    def _take_from(self, turn: int) -> Block | None:
        while True:
            lane = self._lanes[turn]
            if lane is None:
                if self._next >= len(self._order):
                    return None
                unit = int(self._order[self._next])
                self._next += 1
                file, number = self._place(unit)
                if not file.compressed:
                    return Block(file, number, None)
                lane = self._lanes[turn] = self._open(unit, 0)
            try:
                text = lane.take()
            except (DataError, OSError) as error:
                self._lanes[turn] = None
                raise UnreadableFileError(lane.file, error) from None
            if text is not None:
                return Block(lane.file, 0, text)
            self._lanes[turn] = None

    def _place(self, unit: int) -> tuple[LogFile, int]:
        file = int(np.searchsorted(self._ends, unit, side="right"))
        return self._files[file], unit - int(self._ends[file - 1] if file else 0)

    def _open(self, unit: int, done: int) -> _Lane:
        return _Lane(unit, self._place(unit)[0], done, self._submit)


class UnreadableFileError(DataError):
    """A file of a log cannot be read to its end."""

    def __init__(self, file: LogFile, error: Exception) -> None:
        super().__init__(str(error) if isinstance(error, DataError) else f"{file.path}: cannot be read ({error})")
        self.name = str(file.path)
