"""Threads that run batches: one each, watched, and replaced when one dies.

A batch that fails is halved until the item that fails is found, so the others get their answers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.errors import WorkerError
from suites.engine.serving.batcher import Batcher, Entry
from suites.engine.serving.errors import Broken, QueueFull
from suites.engine.serving.readers import Hung

Run = Callable[[list[Any]], Sequence[Any]]  # payloads of a batch to their results
_DEATHS_WINDOW = 60.0  # seconds


@dataclass(frozen=True)
class BatchDone:
    """What is known of a batch that ran: for metrics."""

    items: int
    cost: int
    seconds: float
    failed: int


class Workers:
    """The threads between a batcher and the network.

    Args:
        batcher: where batches come from.
        runs: one function a worker, each used by one thread at a time.
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
        stuck_after: float = 60.0,
        max_deaths: int = 3,
        on_batch: Callable[[BatchDone], None] = lambda done: None,
        on_death: Callable[[BaseException, bool], None] = lambda error, given_up: None,
    ) -> None:
        self._batcher = batcher
        self._runs = list(runs)
        self._stuck_after = stuck_after
        self._max_deaths = max_deaths
        self._on_batch = on_batch
        self._on_death = on_death
        self._lock = threading.Lock()
        self._threads: list[threading.Thread | None] = [None] * len(self._runs)
        self._busy_since: list[float | None] = [None] * len(self._runs)
        self._deaths: deque[float] = deque()
        self.given_up = False

    def start(self) -> None:
        """Start all threads."""
        for number in range(len(self._runs)):
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
        batch: list[Entry] | None = None
        try:
            while (batch := self._batcher.take()) is not None:
                start = self._busy_since[number] = time.monotonic()
                outcomes = run_isolated(self._runs[number], [entry.payload for entry in batch])
                seconds = time.monotonic() - start
                self._busy_since[number] = None
                self._batcher.finish(batch, outcomes, seconds)
                failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
                self._on_batch(BatchDone(len(batch), sum(entry.cost for entry in batch), seconds, failed))
        except BaseException as error:  # SystemExit and the like: the thread ends, its requests must not wait for ever
            self._busy_since[number] = None
            for entry in batch or []:
                self._batcher.cancel(entry.ticket, Broken(f"the worker died ({type(error).__name__}: {error})"))
            self._replace(number, error)

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
    """Return each payload's result, or the exception that it alone is to blame for."""
    try:
        found = list(run(payloads))
        if len(found) != len(payloads):
            raise WorkerError(f"serving: {len(payloads)} items gave {len(found)} results; mend the model's processor")
        return found
    except Hung as error:
        return [error] if len(payloads) == 1 else _one_by_one(run, payloads, error)
    except Exception as error:
        if len(payloads) == 1:
            return [error]
    half = len(payloads) // 2
    return run_isolated(run, payloads[:half]) + run_isolated(run, payloads[half:])


def _one_by_one(run: Run, payloads: list[Any], hung: Hung) -> list[Any]:
    """The results of a batch in which some item hangs: that one waits once more, and many of them wait twice in all."""
    end = time.monotonic() + 2 * hung.seconds
    later = QueueFull("a batch with an item that hangs was given up; try again in 1 s", 1)
    return [run_isolated(run, [payload])[0] if time.monotonic() < end else later for payload in payloads]
