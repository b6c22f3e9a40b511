"""The parent's side of the worker processes: starts them, hands out jobs, maps the batches they made.

Start method. `forkserver` where it exists, else `spawn`. Plain `fork` would copy a parent that runs native
threads: a lock that one of them holds at that moment stays locked in the child for ever, and the children
would hold each other's pipes open, so that they outlive a killed parent. The fork server is a fresh
interpreter that runs no kernels, so has none of those threads, and imports the dataset's modules once; a
worker forked from it starts in milliseconds. Its price is that datasets and transforms must be picklable.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from framework.data.blocks import create, pack, receive_block, send_fd, unpack
from framework.data.dataset import describe
from framework.data.faults import FaultPolicy
from framework.data.recipe import BatchJob, Made, Recipe
from framework.data.worker import LEFT_TO_PARENT, NOT_STARTED, Order, Progress, Result, Setup, library_threads_away
from framework.data.worker import main as worker_main
from framework.errors import AttributeValueError, DataError, WorkerError
from framework.remedies import with_remedy

_GRACE = 2.0  # seconds a worker has to finish its batch before it is stopped
_LONGEST_FOLDER = 70  # bytes of a name, which 34 more follow; a socket's may have 107
_SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
_TICK = 0.01  # seconds added to the time to wait, so that a worker that is overdue is seen to be


@dataclass
class _Member:
    """One worker: its process, its pipe, the blocks it made, those its batches no longer use, its jobs in order."""

    rank: int
    process: BaseProcess
    connection: Connection
    progress: Progress
    blocks: dict[int, np.ndarray] = field(default_factory=dict)
    reusable: deque[int] = field(default_factory=deque)
    jobs: deque[BatchJob] = field(default_factory=deque)


class WorkerPool:
    """Worker processes that make batches; each batch is taken by its job number.

    Args:
        recipe: how batches are made.
        workers: how many processes.
        method: how they start.
        worker_init: called with each worker's rank.
        faults: how long a sample may take.
    """

    def __init__(
        self,
        recipe: Recipe,
        workers: int,
        method: str | None,
        worker_init: Callable[[int], None] | None,
        faults: FaultPolicy = FaultPolicy(),  # noqa: B008  (frozen)
    ) -> None:
        payload = _pack_recipe(recipe)
        self._dataset = recipe.dataset
        self._faults = faults
        self._members: list[_Member] = []
        self._done: dict[int, tuple[_Member, Result]] = {}
        self._wanted: set[int] = set()
        self._init = worker_init
        self._context: Any = multiprocessing.get_context(method or default_start_method())
        if self._context.get_start_method() == "forkserver":
            with _told("the server that starts workers"):
                start_fork_server(_modules(recipe))
        fd, block = create(payload.size)  # kept for workers that take another's place
        self._setup = Setup(0, len(block), payload.extents)
        self._recipe_fd = fd
        self._close = weakref.finalize(self, _shut_down, self._members, fd)
        # At the interpreter's end before it sends SIGTERM, which workers leave to their parent, and waits for them.
        util.Finalize(self, self._close, exitpriority=10)
        payload.write(block)
        for rank in range(workers):
            self._add(rank)

    def submit(self, job: BatchJob) -> None:
        """Hand `job` to the worker that has the fewest."""
        member = min(self._members, key=lambda m: len(m.jobs))
        reusable = [member.reusable.popleft() for _ in range(len(member.reusable))]
        member.jobs.append(job)
        self._wanted.add(job.number)
        try:
            member.connection.send(Order(job, reusable))
        except ConnectionError:
            self._died(member)

    def take(self, number: int) -> Made:
        """Wait for job `number` and return its batch; the arrays are views of shared memory.

        The memory is used again once the last view of the batch is gone. Raises DataError for a sample that
        failed, `Hung` for one that takes too long, WorkerError for a worker that died.
        """
        while number not in self._done:
            self._receive()
        self._wanted.discard(number)
        member, result = self._done.pop(number)
        if result.placement is None:
            raise DataError(result.error)
        memory = member.blocks[result.placement.block][:]
        weakref.finalize(memory, member.reusable.append, result.placement.block).atexit = False
        return Made(unpack(memory, result.extents), result.skipped)

    def discard(self) -> None:
        """Forget all jobs: their batches are dropped as they arrive."""
        self._wanted.clear()
        for member, result in self._done.values():
            if result.placement is not None:
                member.reusable.append(result.placement.block)
        self._done.clear()

    def restart(self, hung: Hung, avoid: frozenset[int]) -> None:
        """Put a new worker in the place of one that hangs; it gets the same jobs, without the samples `avoid`."""
        member = self._members.pop(hung.rank)
        member.process.kill()
        member.process.join()
        member.connection.close()
        self._add(hung.rank)
        for job in member.jobs:
            if job.number in self._wanted and job.number not in self._done:
                self.submit(replace(job, avoid=avoid))

    def close(self) -> None:
        """Stop the workers."""
        self._close()

    def _add(self, rank: int) -> None:
        with _told("a worker"):
            self._start_one(rank)

    def _start_one(self, rank: int) -> None:
        fd, memory = create(mmap.PAGESIZE)
        try:
            member = _start(self._context, self._init, rank, Progress(memory))
            self._members.insert(rank, member)
            member.connection.send(replace(self._setup, rank=rank))
            send_fd(member.connection, self._recipe_fd)
            send_fd(member.connection, fd)
        except ConnectionError:
            self._died(member)
        finally:
            os.close(fd)

    def _receive(self) -> None:
        """Wait for at least one message and take in all that are there."""
        pipes = {member.connection: member for member in self._members}
        for ready in wait(list(pipes), self._patience()) or self._overdue():
            member = pipes[ready]  # type: ignore[index]
            try:
                self._accept(member, member.connection.recv())
            except (EOFError, ConnectionError):
                self._died(member)

    def _patience(self) -> float | None:
        """Seconds until a worker that works now will have taken too long; None if there is no bound."""
        if not self._faults.seconds:
            return None
        began = [m.progress.since for m in self._members if m.jobs and m.progress.since]
        return max(0.0, min(began, default=time.monotonic()) + self._faults.seconds - time.monotonic()) + _TICK

    def _overdue(self) -> list[Any]:
        """Raise `Hung` for the first worker that has taken too long for one sample."""
        for member in self._members:
            since = member.progress.since
            if member.jobs and since and time.monotonic() - since > self._faults.seconds:
                raise Hung(member.rank, member.progress.sample, self._at(member), self._faults.seconds)
        return []

    def _at(self, member: _Member) -> str:
        """What a worker is at, for a message."""
        sample = member.progress.sample
        if sample == Progress.STARTING:
            return "its start"
        if not member.progress.since:
            return "nothing"
        return describe(self._dataset, sample) if sample >= 0 else "putting a batch together"

    def _accept(self, member: _Member, result: Result) -> None:
        if result.number == NOT_STARTED:
            self.close()
            raise WorkerError(f"DataLoader: a worker could not start:\n{result.error}")
        member.jobs.popleft()
        at = result.placement
        if at is not None:
            for block in at.retired:
                del member.blocks[block]
            if at.fresh is not None:
                member.blocks[at.block] = receive_block(member.connection, at.fresh)
        if result.number in self._wanted and result.number not in self._done:
            self._done[result.number] = member, result
        elif at is not None:
            member.reusable.append(at.block)

    def _died(self, member: _Member) -> None:
        self._raise_last_words(member)
        member.process.join(_GRACE)
        code = member.process.exitcode
        self.close()
        cause = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        hint = "; if it was the system's out-of-memory killer, use fewer workers or a smaller batch"
        raise WorkerError(
            f"DataLoader: worker process {member.process.pid} {cause} while it made batches (at {self._at(member)})"
            f"{hint if code == -9 else ''}"
        )

    def _raise_last_words(self, member: _Member) -> None:
        """Take in what a worker said before it ended: the error of one that could not start may still be unread."""
        with contextlib.suppress(EOFError, OSError):
            while member.connection.poll():
                self._accept(member, member.connection.recv())


class Hung(Exception):
    """A worker takes too long: which, for which sample (see `Progress`), and that in words."""

    def __init__(self, rank: int, sample: int, what: str, seconds: float) -> None:
        super().__init__(f"{what}: a worker took longer than {seconds:g} s")
        self.rank = rank
        self.sample = sample


def default_start_method() -> str:
    """Return `forkserver` where the platform has it, else `spawn`."""
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _pack_recipe(recipe: Recipe) -> Any:
    try:
        return pack(recipe)
    except Exception as error:
        raise AttributeValueError(
            f"DataLoader: dataset or transforms cannot be sent to worker processes ({error}); "
            "define their classes and functions at the top of a module, or use workers=0"
        ) from error


def start_fork_server(modules: list[str]) -> None:
    """Start the fork server, if it does not run yet, with `modules` imported and this process's module path.

    Python below 3.13 passes the path to workers but not to the server, which then could not import ahead.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.set_forkserver_preload(modules)
        _choose_short_folder()
        with _signals_left_to_parent():
            forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Inside, an error of the system says that it kept `what` from starting, and what to do."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise WorkerError(f"DataLoader: {what} cannot be started: {with_remedy(error)}") from error


def _choose_short_folder() -> None:
    """Have multiprocessing keep its sockets elsewhere where TMPDIR is too long for the name of a socket.

    Raises WorkerError where no other folder can be written.
    """
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
        return
    short = next((place for place in _SHORT_FOLDERS if os.access(place, os.W_OK | os.X_OK)), None)
    if short is None:
        raise WorkerError(
            f"DataLoader: TMPDIR ({folder}) has {len(os.fsencode(folder))} characters, too many for a socket's name, "
            f"and {', '.join(_SHORT_FOLDERS)} cannot be used; set TMPDIR to one of {_LONGEST_FOLDER} characters "
            "at most, or runtime.workers to 0"
        )
    before, tempfile.tempdir = tempfile.tempdir, short
    try:
        util.get_temp_dir()  # which remembers it for all sockets of this process
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _signals_left_to_parent() -> Iterator[None]:
    """Inside, what is started inherits that these signals wait: batch systems send them to all processes of a job."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_TO_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _modules(recipe: Recipe) -> list[str]:
    """Modules the fork server imports ahead, so that workers share them and need not import them again."""
    parts = [recipe.dataset, recipe.collate, *recipe.transforms, *recipe.batch_transforms]
    names = {__name__} | {getattr(p, "__module__", None) or type(p).__module__ for p in parts}
    return sorted(names - {"__main__"})


def _start(context: Any, worker_init: Callable[[int], None] | None, rank: int, progress: Progress) -> _Member:
    progress.begin(Progress.STARTING)
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=worker_main, args=(theirs, worker_init), daemon=True)
    with _signals_left_to_parent(), library_threads_away(context.get_start_method()):
        process.start()
    theirs.close()
    return _Member(rank, process, ours, progress)


def _shut_down(members: list[_Member], recipe_fd: int) -> None:
    """Ask, then force; closing the pipes is what an idle worker notices first."""
    os.close(recipe_fd)
    for member in members:
        with contextlib.suppress(OSError):
            member.connection.send(None)
        member.connection.close()
    deadline = time.monotonic() + _GRACE
    for member in members:
        member.process.join(max(0.0, deadline - time.monotonic()))
        if member.process.is_alive():
            member.process.kill()
            member.process.join()
    members.clear()
