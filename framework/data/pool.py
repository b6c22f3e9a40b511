"""The parent's side of the worker processes: starts them, hands out tasks, maps the batches they made.

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
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from framework.data.blocks import create, pack, receive_block, send_fd, unpack
from framework.data.recipe import Recipe, Task
from framework.data.worker import NOT_STARTED, Order, Result, Setup
from framework.data.worker import main as worker_main
from framework.errors import AttributeValueError, DataError, WorkerError

_GRACE = 2.0  # seconds a worker has to finish its batch before it is stopped


@dataclass
class _Member:
    """One worker: its process, its pipe, the blocks it made, and those its batches no longer use."""

    process: BaseProcess
    connection: Connection
    blocks: dict[int, mmap.mmap] = field(default_factory=dict)
    reusable: deque[int] = field(default_factory=deque)
    tasks: int = 0


class WorkerPool:
    """Worker processes that make batches; each batch is taken by its task number."""

    def __init__(
        self, recipe: Recipe, workers: int, method: str | None, worker_init: Callable[[int], None] | None
    ) -> None:
        payload = _pack_recipe(recipe)
        self._members: list[_Member] = []
        self._done: dict[int, tuple[_Member, Result]] = {}
        self._wanted: set[int] = set()
        self._close = weakref.finalize(self, _shut_down, self._members)
        context: Any = multiprocessing.get_context(method or default_start_method())
        if context.get_start_method() == "forkserver":
            _start_fork_server(_modules(recipe))
        fd, block = create(payload.size)
        try:
            payload.write(block)
            for rank in range(workers):
                self._members.append(_start(context, worker_init))
                self._members[-1].connection.send(Setup(rank, len(block), payload.extents))
                send_fd(self._members[-1].connection, fd)
        except ConnectionError:
            self._died(self._members[-1])
        finally:
            os.close(fd)

    def submit(self, task: Task) -> None:
        """Hand `task` to the worker that has the fewest."""
        member = min(self._members, key=lambda m: m.tasks)
        reusable = [member.reusable.popleft() for _ in range(len(member.reusable))]
        try:
            member.connection.send(Order(task, reusable))
        except ConnectionError:
            self._died(member)
        member.tasks += 1
        self._wanted.add(task.number)

    def take(self, number: int) -> Any:
        """Wait for task `number` and return its batch; the arrays are views of shared memory.

        The memory is used again once the last view of the batch is gone. Raises DataError for a sample that
        failed, WorkerError for a worker that died.
        """
        while number not in self._done:
            self._receive()
        self._wanted.discard(number)
        member, result = self._done.pop(number)
        if result.error is not None:
            raise DataError(result.error)
        memory = np.frombuffer(member.blocks[result.block], np.uint8)
        weakref.finalize(memory, member.reusable.append, result.block).atexit = False
        return unpack(memory, result.extents)

    def discard(self) -> None:
        """Forget all tasks: their batches are dropped as they arrive."""
        self._wanted.clear()
        for member, result in self._done.values():
            if result.error is None:
                member.reusable.append(result.block)
        self._done.clear()

    def close(self) -> None:
        """Stop the workers."""
        self._close()

    def _receive(self) -> None:
        """Wait for at least one message and take in all that are there."""
        pipes = {member.connection: member for member in self._members}
        for ready in wait(list(pipes)):
            member = pipes[ready]  # type: ignore[index]
            try:
                self._accept(member, member.connection.recv())
            except (EOFError, ConnectionError):
                self._died(member)

    def _accept(self, member: _Member, result: Result) -> None:
        if result.number == NOT_STARTED:
            self.close()
            raise WorkerError(f"DataLoader: a worker could not start:\n{result.error}")
        member.tasks -= 1
        for block in result.retired:
            del member.blocks[block]
        if result.fresh is not None:
            member.blocks[result.block] = receive_block(member.connection, result.fresh)
        if result.number in self._wanted and result.number not in self._done:
            self._done[result.number] = member, result
        elif result.error is None:
            member.reusable.append(result.block)

    def _died(self, member: _Member) -> None:
        self._raise_last_words(member)
        member.process.join(_GRACE)
        code = member.process.exitcode
        self.close()
        cause = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        hint = "; if it was the system's out-of-memory killer, use fewer workers or a smaller batch"
        raise WorkerError(
            f"DataLoader: worker process {member.process.pid} {cause} while it made batches{hint if code == -9 else ''}"
        )

    def _raise_last_words(self, member: _Member) -> None:
        """Take in what a worker said before it ended: the error of one that could not start may still be unread."""
        with contextlib.suppress(EOFError, OSError):
            while member.connection.poll():
                self._accept(member, member.connection.recv())


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


def _start_fork_server(modules: list[str]) -> None:
    """Start the fork server, if it does not run yet, with `modules` imported and this process's module path.

    Python below 3.13 passes the path to workers but not to the server, which then could not import ahead.
    """
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.set_forkserver_preload(modules)
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _modules(recipe: Recipe) -> list[str]:
    """Modules the fork server imports ahead, so that workers share them and need not import them again."""
    parts = [recipe.dataset, recipe.collate, *recipe.transforms, *recipe.batch_transforms]
    names = {__name__} | {getattr(p, "__module__", None) or type(p).__module__ for p in parts}
    return sorted(names - {"__main__"})


def _start(context: Any, worker_init: Callable[[int], None] | None) -> _Member:
    ours, theirs = context.Pipe(duplex=True)
    process = context.Process(target=worker_main, args=(theirs, worker_init), daemon=True)
    process.start()
    theirs.close()
    return _Member(process, ours)


def _shut_down(members: list[_Member]) -> None:
    """Ask, then force; closing the pipes is what an idle worker notices first."""
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
