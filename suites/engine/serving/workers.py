"""Threads that run batches, watched, and replaced when one dies.

As many threads take batches as may run at the same time. One whose batch is slow to prepare lets a spare one take the
next, so that an item that hangs holds nobody up. A batch that fails is halved until the item that
fails is found; the items of one that hangs come again one by one. So the others get their answers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import LifoQueue
from typing import Any

from framework.errors import WorkerError
from suites.engine.serving.batcher import Batcher, Entry
from suites.engine.serving.errors import Broken
from suites.engine.serving.readers import Hung

Run = Callable[[Any], Sequence[Any]]  # a prepared batch to the results of its payloads
Prepare = Callable[[list[Any], Callable[[], None]], Any]  # payloads, and what to call where it takes long
_DEATHS_WINDOW = 60.0  # seconds


@dataclass(frozen=True)
class BatchDone:
    """What is known of a batch that ran: for metrics."""

    items: int
    cost: int
    seconds: float
    failed: int


class _Turn:
    """A thread's right to take a batch, given back when the batch is done or slow."""

    def __init__(self, turns: threading.Semaphore) -> None:
        self._turns = turns
        self._held = False

    def take(self) -> None:
        """Wait for it, unless this thread has it."""
        if not self._held:
            self._turns.acquire()
            self._held = True

    def give(self) -> None:
        """Leave it to others."""
        if self._held:
            self._held = False
            self._turns.release()


def _as_they_are(payloads: list[Any], slow: Callable[[], None]) -> list[Any]:
    return payloads


class Workers:
    """The threads between a batcher and the network.

    Args:
        batcher: where batches come from.
        runs: one function for each batch that may run at a time.
        prepare: what `runs` take of the payloads of a batch; by default the payloads.
        spare: threads beyond `runs`, for batches that are slow to prepare.
        stuck_after: seconds after which a batch counts as stuck.
        max_deaths: of workers in a minute that are made good; one more and the server gives up.
        on_batch: called after each batch, in the worker's thread.
        on_death: called when a worker died, with whether it was the last one that is made good.
    """

    def __init__(
        self,
        batcher: Batcher,
        runs: Sequence[Run],
        *,
        prepare: Prepare = _as_they_are,
        spare: int = 0,
        stuck_after: float = 60.0,
        max_deaths: int = 3,
        on_batch: Callable[[BatchDone], None] = lambda done: None,
        on_death: Callable[[BaseException, bool], None] = lambda error, given_up: None,
    ) -> None:
        self._batcher = batcher
        self._prepare = prepare
        self._runs: LifoQueue[Run] = LifoQueue()
        for run in runs:
            self._runs.put(run)
        self._turns = threading.Semaphore(len(runs))
        self._stuck_after = stuck_after
        self._max_deaths = max_deaths
        self._on_batch = on_batch
        self._on_death = on_death
        self._lock = threading.Lock()
        self._threads: list[threading.Thread | None] = [None] * (len(runs) + spare)
        self._busy_since: list[float | None] = [None] * (len(runs) + spare)
        self._deaths: deque[float] = deque()
        self.given_up = False

    def start(self) -> None:
        """Start all threads."""
        for number in range(len(self._threads)):
            self._start(number)

    def join(self, timeout: float) -> bool:
        """Wait until all threads ended, which they do once the batcher is closed; return whether they did."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            if thread is not None:
                thread.join(max(0.0, end - time.monotonic()))
        return not any(thread is not None and thread.is_alive() for thread in self._threads)

    def trouble(self) -> str | None:
        """What is wrong with the workers, in words; None if nothing is."""
        if self.given_up:
            return "workers died too often"
        now = time.monotonic()
        for number, (thread, since) in enumerate(zip(self._threads, self._busy_since, strict=True)):
            if thread is None or not thread.is_alive():
                return f"worker {number} does not run"
            if since is not None and now - since > self._stuck_after:
                return f"worker {number} has been busy with one batch for {now - since:.0f} s"
        return None

    def busy(self) -> int:
        """How many run a batch now."""
        return sum(since is not None for since in self._busy_since)

    def _start(self, number: int) -> None:
        # Daemons: a stuck kernel must not keep the process from ending.
        thread = threading.Thread(target=self._work, args=(number,), name=f"serving-{number}", daemon=True)
        self._threads[number] = thread
        thread.start()

    def _work(self, number: int) -> None:
        turn = _Turn(self._turns)
        batch: list[Entry] | None = None
        try:
            while True:
                turn.take()
                if (batch := self._batcher.take()) is None:
                    return
                self._busy_since[number] = time.monotonic()
                self._answer(batch, turn)
                self._busy_since[number] = None
        except BaseException as error:  # SystemExit and the like: the thread ends, its requests must not wait for ever
            self._busy_since[number] = None
            for entry in batch or []:
                self._batcher.cancel(entry.ticket, Broken(f"the worker died ({type(error).__name__}: {error})"))
            self._replace(number, error)
        finally:
            turn.give()

    def _answer(self, batch: list[Entry], turn: _Turn) -> None:
        def run(payloads: list[Any]) -> Sequence[Any]:
            prepared = self._prepare(payloads, turn.give)
            found = self._runs.get()
            try:
                return found(prepared)
            finally:
                self._runs.put(found)

        start = time.monotonic()
        try:
            outcomes = run_isolated(run, [entry.payload for entry in batch])
        except Hung:
            self._batcher.put_back(batch)
            return
        seconds = time.monotonic() - start
        self._batcher.finish(batch, outcomes, seconds)
        failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
        self._on_batch(BatchDone(len(batch), sum(entry.cost for entry in batch), seconds, failed))

    def _replace(self, number: int, error: BaseException) -> None:
        with self._lock:
            now = time.monotonic()
            self._deaths.append(now)
            while self._deaths[0] < now - _DEATHS_WINDOW:
                self._deaths.popleft()
            self.given_up = self.given_up or len(self._deaths) > self._max_deaths
        try:
            if self.given_up:
                self._batcher.abandon(Broken("the server's workers died too often; it ends"))
            self._on_death(error, self.given_up)
        finally:
            if not self.given_up:
                self._start(number)


def run_isolated(run: Run, payloads: list[Any]) -> list[Any]:
    """Return each payload's result, or the exception that it alone is to blame for; Hung where one of several hangs."""
    try:
        found = list(run(payloads))
        if len(found) != len(payloads):
            raise WorkerError(f"serving: {len(payloads)} items gave {len(found)} results; mend the model's processor")
        return found
    except Exception as error:
        if len(payloads) == 1:
            return [error]
        if isinstance(error, Hung):
            raise
    half = len(payloads) // 2
    return run_isolated(run, payloads[:half]) + run_isolated(run, payloads[half:])
