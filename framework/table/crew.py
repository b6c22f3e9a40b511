"""Threads that work on one model at the same time, with a bound on how far one may be ahead of another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from framework.anomaly import search_here, search_like
from framework.errors import AttributeValueError

Made = TypeVar("Made")
_END = object()


class Crew(Generic[Made]):
    """Takes jobs in order and works on several at a time; no job begins too far ahead of one that is not done.

    Args:
        workers: one function a thread, called with a job's arguments.
        ahead: while a job is not done, so many of those behind it may begin; 4 a thread by default.
    """

    def __init__(self, workers: Sequence[Callable[..., Made]], ahead: int | None = None) -> None:
        if not workers:
            raise AttributeValueError("Hogwild: threads is 0; it must be 1 or more")
        if ahead is not None and ahead < 0:
            raise AttributeValueError(f"Hogwild: ahead is {ahead}; it must be 0 or more")
        self._workers = list(workers)
        self.ahead = 4 * len(self._workers) if ahead is None else ahead
        self._jobs: queue.Queue[Any] = queue.Queue(2 * len(self._workers))
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()  # of what is not done, and of the error
        self._not_done: set[int] = set()
        self._error: BaseException | None = None
        self._given = 0

    def submit(self, *arguments: Any) -> Future[Made]:
        """Give a job to the next thread that is free; waits where enough jobs wait.

        Raises what a job before raised, once, after all threads have ended.
        """
        if self._error is not None:
            self.wait()
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._loop, args=(each, search_here()), daemon=True, name=f"hogwild-{i}")
                for i, each in enumerate(self._workers)
            ]
            for thread in self._threads:
                thread.start()
        future: Future[Made] = Future()
        with self._changed:
            number, self._given = self._given, self._given + 1
            self._not_done.add(number)
        self._jobs.put((number, future, arguments))
        return future

    def wait(self) -> None:
        """Until all jobs are done and all threads have ended; raises the first error of a job. `submit` starts anew."""
        for _ in self._threads:
            self._jobs.put(_END)
        for thread in self._threads:
            thread.join()
        self._threads = []
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _loop(self, work: Callable[..., Made], search: int) -> None:
        search_like(search)
        while (job := self._jobs.get()) is not _END:
            number, future, arguments = job
            try:
                if self._may_begin(number):
                    future.set_result(work(*arguments))
                else:  # after an error what waits is taken out, so that nobody waits for room
                    future.cancel()
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
                future.set_exception(error)
            finally:
                with self._changed:
                    self._not_done.discard(number)
                    self._changed.notify_all()

    def _may_begin(self, number: int) -> bool:
        """Waits until the oldest job that is not done is near enough; false where a job failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or number - min(self._not_done) <= self.ahead)
            return self._error is None
