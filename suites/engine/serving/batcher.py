"""Items of many requests in one bounded queue, out of which workers take batches; answers find their requests again.

Order: an item's place is its request's arrival plus the time that the request's items up to it would take alone. So a
short request overtakes the tail of a long one, and nobody starves: a place never moves back, and later arrivals get
later places (the virtual finish times of fair queueing; Demers, Keshav, Shenker, 1989).
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from framework.errors import AttributeValueError
from suites.engine.serving.errors import Cancelled, Closed, DeadlineExceeded, QueueFull

_FIRST_RATE = 1e4  # cost a second that is assumed before the first batch was timed
_RATE_SHARE = 0.2  # of the newest batch in the running mean


@dataclass(frozen=True)
class Limits:
    """How batches are gathered and how much may wait.

    Args:
        max_cost: of a batch, in the processor's unit (tokens of a text); a larger item goes alone.
        max_items: of a batch.
        max_wait: seconds that a batch which is not full waits for more; 0 never waits while a worker is free.
        max_queue: items that may wait.
    """

    max_cost: int = 4096
    max_items: int = 256
    max_wait: float = 0.0
    max_queue: int = 4096

    def __post_init__(self) -> None:
        for name in ("max_cost", "max_items", "max_queue"):
            if getattr(self, name) < 1:
                raise AttributeValueError(f"batcher: {name} is {getattr(self, name)}; it must be 1 or more")
        if not 0 <= self.max_wait <= 60:
            raise AttributeValueError(f"batcher: max_wait is {self.max_wait} s; it must be between 0 and 60")


class Ticket:
    """A request on its way.

    Attributes:
        future: gets the results in the order of the items, or the error of the first item that failed.
        arrived, deadline: on the batcher's clock, in seconds.
    """

    def __init__(self, count: int, arrived: float, deadline: float | None) -> None:
        self.future: Future[list[Any]] = Future()
        self.future.set_running_or_notify_cancel()  # from here on only the batcher settles it
        self.arrived = arrived
        self.deadline = deadline
        self.started: float | None = None  # when its first item was taken
        self.over = False
        self.waiting = 0  # items in the queue, and their cost
        self.waiting_cost = 0
        self.results: list[Any] = [None] * count
        self.left = count


@dataclass(frozen=True)
class Entry:
    """One item of a request."""

    payload: Any
    cost: int
    ticket: Ticket
    index: int
    alone: bool


class Batcher:
    """The queue between requests and workers; safe to use from any thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.waiting = 0
        self.waiting_cost = 0
        self._clock = clock
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, Entry]] = []
        self._order = itertools.count()
        self._since: float | None = None  # since when something waits
        self._rate = _FIRST_RATE
        self._closed = False

    def submit(
        self, payloads: Sequence[Any], costs: Sequence[int], *, timeout: float | None = None, alone: bool = False
    ) -> Ticket:
        """Put a request's items into the queue.

        Args:
            payloads: what the worker gets of each item.
            costs: of each item.
            timeout: seconds after which the items are dropped.
            alone: the items go into no batch with others.

        Raises QueueFull, or Closed once the server ends.
        """
        now = self._clock()
        ticket = Ticket(len(payloads), now, None if timeout is None else now + timeout)
        with self._changed:
            if self._closed:
                raise Closed("the server is shutting down; ask another one")
            if self.waiting + len(payloads) > self.limits.max_queue:
                raise self._queue_full(len(payloads))
            spent = 0
            for index, (payload, cost) in enumerate(zip(payloads, costs, strict=True)):
                spent += cost
                entry = Entry(payload, cost, ticket, index, alone)
                heapq.heappush(self._heap, (now + spent / self._rate, next(self._order), entry))
            self._count(ticket, len(payloads), spent)
            if self._since is None:
                self._since = now
            self._changed.notify_all()
        if not payloads:
            self._settle(ticket, [])
        return ticket

    def cancel(self, ticket: Ticket, error: Exception | None = None) -> None:
        """Take what is left of a request out of the queue; its future gets `error`, by default Cancelled."""
        with self._changed:
            self._settle(ticket, error or Cancelled("the request was cancelled"))
            if len(self._heap) > 2 * self.waiting + 64:
                self._heap = [row for row in self._heap if not row[2].ticket.over]
                heapq.heapify(self._heap)

    def take(self) -> list[Entry] | None:
        """Wait for a batch and return it; None once the batcher is closed and empty."""
        with self._changed:
            while True:
                if self.waiting:
                    now = self._clock()
                    left = self._wait_left(now)
                    if left > 0:
                        self._changed.wait(left)
                    elif batch := self._form(now):
                        return batch
                elif self._closed:
                    return None
                else:
                    self._changed.wait()

    def put_back(self, batch: Sequence[Entry]) -> None:
        """Let a batch's items come again, each alone and before others."""
        with self._changed:
            for entry in batch:
                if not entry.ticket.over:
                    row = (entry.ticket.arrived, next(self._order), replace(entry, alone=True))
                    heapq.heappush(self._heap, row)
                    self._count(entry.ticket, 1, entry.cost)
            self._changed.notify_all()

    def finish(self, batch: Sequence[Entry], outcomes: Sequence[Any], seconds: float) -> None:
        """Hand in a batch: of each item its result, or the exception it failed with."""
        with self._changed:
            cost = sum(entry.cost for entry in batch)
            self._rate += _RATE_SHARE * (cost / max(seconds, 1e-6) - self._rate)
            for entry, outcome in zip(batch, outcomes, strict=True):
                ticket = entry.ticket
                if isinstance(outcome, Exception):
                    self._settle(ticket, outcome)
                    continue
                ticket.results[entry.index] = outcome
                ticket.left -= 1
                if ticket.left == 0:
                    self._settle(ticket, ticket.results)

    def close(self) -> None:
        """Take no more requests; workers finish what waits and are then told to end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self, error: Exception) -> None:
        """Close, and settle every request that waits with `error`: nobody is there to work any more."""
        with self._changed:
            self.close()
            for _, _, entry in self._heap:
                self._settle(entry.ticket, error)
            self._heap = []

    @property
    def closed(self) -> bool:
        """Whether no more requests are taken."""
        return self._closed

    # -- with the lock held
    def _queue_full(self, count: int) -> QueueFull:
        seconds = max(1, math.ceil(self.waiting_cost / self._rate))
        return QueueFull(
            f"the queue is full: {self.waiting} items wait, {count} more are over its limit of "
            f"{self.limits.max_queue}; try again in {seconds} s",
            seconds,
        )

    def _wait_left(self, now: float) -> float:
        limits = self.limits
        full = self.waiting >= limits.max_items or self.waiting_cost >= limits.max_cost
        if full or self._closed or self._since is None:
            return 0.0
        return self._since + limits.max_wait - now

    def _form(self, now: float) -> list[Entry]:
        batch: list[Entry] = []
        cost = 0
        while self._heap:
            entry = self._heap[0][2]
            ticket = entry.ticket
            if not ticket.over and ticket.deadline is not None and ticket.deadline <= now:
                self._settle(ticket, DeadlineExceeded(f"no worker was free for {now - ticket.arrived:.1f} s"))
            if not ticket.over:
                full = cost + entry.cost > self.limits.max_cost or len(batch) == self.limits.max_items
                if batch and (full or entry.alone):
                    break
                batch.append(entry)
                cost += entry.cost
                self._count(ticket, -1, -entry.cost)
                ticket.started = ticket.started or now
            heapq.heappop(self._heap)
            if entry.alone and batch:
                break
        self._since = now - self.limits.max_wait if self.waiting else None  # what is left has waited long enough
        return batch

    def _count(self, ticket: Ticket, items: int, cost: int) -> None:
        ticket.waiting += items
        ticket.waiting_cost += cost
        self.waiting += items
        self.waiting_cost += cost

    def _settle(self, ticket: Ticket, outcome: list[Any] | Exception) -> None:
        if ticket.over:
            return
        ticket.over = True
        self._count(ticket, -ticket.waiting, -ticket.waiting_cost)
        if not self.waiting:
            self._since = None
        if isinstance(outcome, Exception):
            ticket.future.set_exception(outcome)
        else:
            ticket.future.set_result(outcome)
