"""The worker process: receives jobs, makes batches, leaves them in blocks that the parent maps.

Messages are small in both directions (a batch travels in a block), so neither side can block the other.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import ClassVar

import numpy as np

from framework.data.blocks import Packed, pack, receive_block, unpack
from framework.data.kept import KeptBlocks, Placement
from framework.data.recipe import BatchJob, Recipe
from framework.errors import DataError
from framework.system.signals import ENDING

LEFT_TO_PARENT = ENDING
NOT_STARTED = -1  # the job number of a result that says why a worker cannot start
_MAX_ERROR = 20_000  # characters of an error that travel, so that a message never fills the pipe


@dataclass(frozen=True)
class Setup:
    """First message to a worker; the blocks with its recipe and for its progress follow."""

    rank: int
    size: int
    extents: list[tuple[int, int]]


@dataclass(frozen=True)
class Order:
    """A job for a worker, with the ids of blocks it may use again."""

    job: BatchJob
    reusable: list[int]


@dataclass(frozen=True)
class Result:
    """A finished job: its batch lies in a block, or `error` says why there is none.

    `skipped` says why samples were left out, by index.
    """

    number: int
    error: str | None = None
    placement: Placement | None = None
    extents: list[tuple[int, int]] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)


class Progress:
    """What a worker is at, in a block that its parent can read at any time, also when the worker hangs."""

    STARTING: ClassVar[int] = -2

    def __init__(self, memory: np.ndarray) -> None:
        self._numbers = memory[:16].view(np.int64)

    @property
    def sample(self) -> int:
        """Index in the data set; -1 while a batch is put together; STARTING before the first job."""
        return int(self._numbers[0])

    @property
    def since(self) -> float:
        """When that began, in seconds of `time.monotonic`, which all processes share; 0 while there is no job."""
        return float(self._numbers[1]) * 1e-9

    def begin(self, sample: int) -> None:
        """From now on, `sample`."""
        self._numbers[:] = sample, time.monotonic_ns()

    def rest(self) -> None:
        """Nothing, until the next job."""
        self._numbers[1] = 0


def main(connection: Connection, worker_init: Callable[[int], None] | None) -> None:
    """Serve jobs until the parent says None or goes away."""
    # What tells a whole group to end is the parent's to handle: it saves first, and then lets its workers go.
    for number in LEFT_TO_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEFT_TO_PARENT)  # they were blocked until here
    try:
        setup: Setup = connection.recv()
        memory = receive_block(connection, setup.size)
        progress = Progress(receive_block(connection, mmap.PAGESIZE))
    except (EOFError, ConnectionError):
        return
    memory.flags.writeable = False  # shared by all workers
    try:
        recipe: Recipe = unpack(memory, setup.extents)
        limit_library_threads()
        if worker_init is not None:
            worker_init(setup.rank)
    except Exception:
        with contextlib.suppress(ConnectionError):  # another worker failed first, and the parent has gone
            connection.send(Result(NOT_STARTED, error=traceback.format_exc()[-_MAX_ERROR:]))
        return
    progress.rest()
    _Server(connection, recipe, progress).serve()


def limit_library_threads() -> None:
    """Workers are the parallelism: OpenCV's own threads in each of them would only get in the way."""
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(1)


@contextlib.contextmanager
def library_threads_away(start_method: str) -> Iterator[None]:
    """Inside, a process may be forked: OpenCV's threads are ended, as a child lacks them and would wait for them."""
    cv2 = sys.modules.get("cv2")
    if cv2 is None or start_method != "fork":
        yield
        return
    count = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(count)


class _Server:
    """Makes batches and owns this worker's blocks."""

    def __init__(self, connection: Connection, recipe: Recipe, progress: Progress) -> None:
        self._connection = connection
        self._recipe = recipe
        self._progress = progress
        self._blocks = KeptBlocks()

    def serve(self) -> None:
        while True:
            try:
                order: Order | None = self._connection.recv()
            except (EOFError, ConnectionError):
                return
            if order is None:
                return
            self._blocks.put_back(order.reusable)
            result = self._work(order.job)
            self._progress.rest()
            try:
                self._connection.send(result)
                if result.placement is not None:
                    self._blocks.send_fresh(self._connection, result.placement)
            except ConnectionError:
                return

    def _work(self, job: BatchJob) -> Result:
        try:
            made = self._recipe.make(job, self._progress.begin)
            return replace(self._place(job.number, pack(made.batch)), skipped=made.skipped)
        except DataError as error:
            return Result(job.number, error=str(error)[:_MAX_ERROR])
        except Exception as error:
            text = f"DataLoader: batch {job.batch} of epoch {job.epoch}: {type(error).__name__}: {error}"
            return Result(job.number, error=text[:_MAX_ERROR])

    def _place(self, number: int, packed: Packed) -> Result:
        memory, at = self._blocks.place(packed.size)
        packed.write(memory)
        return Result(number, placement=at, extents=packed.extents)
