"""ShardClient: all shards of a table as one. Pulls come ahead of their use, pushes are acknowledged behind the step.

A push is one message a shard; at most `window` batches of pushes are on their way. One thread talks to all shards.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.errors import PaddockError, StateError
from framework.table.remote.keys import Unique, chunks, covers, shares, sliced
from framework.table.remote.link import Link, Patience, Request
from framework.table.remote.optional import zmq
from framework.table.remote.secure import Key
from framework.table.remote.wire import Header, Kind, check_size, name_of

_TICK_MS = 50  # between two looks at who is late
Answer = tuple[Header, list[Any]]
Where = Callable[[int], str | None]


@dataclass(frozen=True)
class Push:
    """A push that is on its way.

    Attributes:
        sequence: its number.
        parts: the answer of each shard.
    """

    sequence: int
    parts: tuple[Future[Answer], ...]

    @property
    def done(self) -> bool:
        """Whether all shards have answered."""
        return all(part.done() for part in self.parts)

    def dense(self) -> np.ndarray:
        """The dense numbers after it, float32, of a push that changed some; waits for the answer."""
        return _joined([part.result() for part in self.parts])


class ShardClient:
    """A process's connection to the shards of one table.

    Args:
        where: the address of a shard by its number, asked again when it does not answer; None while it has none.
        count: of shards.
        model: key of the model, see `described`.
        dim: columns of a row.
        dense: dense numbers of the whole model.
        window: batches of pushes on their way at most.
        patience: how long a shard that does not answer is waited for.
        key: of the job; None where shards ask for none.

    Raises NotSupportedError where pyzmq is not installed.
    """

    def __init__(
        self,
        where: Where,
        count: int,
        model: bytes,
        dim: int,
        *,
        dense: int = 0,
        window: int = 4,
        patience: Patience = Patience(),  # noqa: B008  (frozen)
        key: Key | None = None,
    ) -> None:
        self.shares, self.dim, self.size = shares(count), dim, dense
        assert covers(self.shares)
        self._model, self._window, self._bounds = model, window, chunks(dense)
        self._numbers = itertools.count(1)
        self._pushes: deque[Push] = deque()
        self.worker = self.incarnation = 0
        self._context = zmq().Context()
        self._links = [Link(self._context, i, lambda i=i: where(i), patience, key) for i in range(count)]  # type: ignore[misc]
        self._orders: deque[tuple[int, Request]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()  # of the orders and of how it ended
        self._ending = False
        self._error: PaddockError = StateError("shards: the client is closed")
        self._thread = threading.Thread(target=self._talk, name="paddock-shards", daemon=True)
        self._thread.start()

    # -- what a trainer does
    def hello(self, worker: int, incarnation: int) -> int:
        """Push as `worker` from now on; returns the number of its first push that not all shards have."""
        self.worker, self.incarnation = worker, incarnation
        header = Header(Kind.HELLO, worker=worker, incarnation=incarnation)
        return min(answer.sequence for answer, _ in self._all(header))

    def pull(self, unique: Unique) -> Callable[[], np.ndarray]:
        """Ask for the rows of different keys; what is returned waits for them, float32 [U, dim]."""
        parts = [
            self._ask(i, Header(Kind.PULL, count=part.size), [part])
            for i, share in enumerate(self.shares)
            for part in [unique.keys[sliced(unique.starts, share)]]
        ]
        return lambda: _joined([part.result() for part in parts]).reshape(-1, self.dim)

    def push(
        self, sequence: int, unique: Unique, grads: np.ndarray, lr: float, dense: np.ndarray | None = None
    ) -> Push:
        """Send push `sequence`: gradients float32 [U, dim], and the change of the dense numbers, if any.

        Waits while too many pushes are on their way.

        Raises what a shard answered to an earlier push.
        """
        self.settle(self._window - 1)
        parts = []
        for i, share in enumerate(self.shares):
            here = sliced(unique.starts, share)
            change = _NONE if dense is None else np.ascontiguousarray(dense[sliced(self._bounds, share)])
            header = Header(
                Kind.PUSH,
                worker=self.worker,
                incarnation=self.incarnation,
                sequence=sequence,
                count=here.stop - here.start,
                dense=change.size,
                lr=lr,
            )
            frames = [unique.keys[here], grads[here], unique.shows[here], unique.clicks[here], change]
            parts.append(self._ask(i, header, frames))
        made = Push(sequence, tuple(parts))
        self._pushes.append(made)
        return made

    def settle(self, most: int = 0) -> None:
        """Wait until at most so many pushes are on their way; raises what a shard answered to one."""
        while self._pushes and (len(self._pushes) > most or self._pushes[0].done):
            push = self._pushes[0]
            wait_for(push.parts)
            self._pushes.popleft()
            for part in push.parts:
                part.result()

    def start(self, dense: np.ndarray) -> np.ndarray:
        """Begin with these dense numbers where the shards have none yet; returns those that count, float32."""
        parts = [
            self._ask(i, Header(Kind.START, dense=piece.size), [piece])
            for i, share in enumerate(self.shares)
            for piece in [np.ascontiguousarray(dense[sliced(self._bounds, share)], np.float32)]
        ]
        return _joined([part.result() for part in parts])

    def dense(self) -> np.ndarray:
        """The dense numbers as they are now, float32."""
        return _joined(self._all(Header(Kind.DENSE)))

    # -- what the head of a run does
    def counts(self, unique: Unique) -> np.ndarray:
        """See `Table.counts`: float32 [U, 4]."""
        parts = [
            self._ask(i, Header(Kind.COUNTS, count=part.size), [part])
            for i, share in enumerate(self.shares)
            for part in [unique.keys[sliced(unique.starts, share)]]
        ]
        return _joined([part.result() for part in parts]).reshape(-1, 4)

    def end_pass(self, number: int, floor: int) -> int:
        """The end of pass `number` on all shards, once; returns how many rows went."""
        answers = self._all(Header(Kind.PASS, sequence=number, incarnation=floor))
        return sum(answer.count for answer, _ in answers)

    def checkpoint(self) -> None:
        """Let all shards take a checkpoint; waits for it."""
        self._all(Header(Kind.CHECKPOINT))

    def save(self, paths: Sequence[str]) -> None:
        """Let each shard write its rows as a base into its path."""
        for part in [self._ask(i, Header(Kind.SAVE), [path.encode()]) for i, path in enumerate(paths)]:
            part.result()

    def cut(self, ids: np.ndarray) -> None:
        """Let all shards begin a publication; see `framework.table.remote.publication`."""
        for part in [self._ask(i, Header(Kind.CUT), [ids]) for i in range(len(self.shares))]:
            part.result()

    def rows(self, ids: np.ndarray, first: int, last: int, kind: int) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """Ask for the rows of a publication in buckets [first, last) of one shard; what is returned waits for them."""
        shard = next(i for i, share in enumerate(self.shares) if share[0] <= first < share[1])
        part = self._ask(shard, Header(Kind.ROWS), [ids, np.array([first, last, kind], np.int64)])

        def answer() -> tuple[np.ndarray, np.ndarray]:
            _, (keys, packed) = part.result()
            return np.frombuffer(keys, np.int64), np.frombuffer(packed, np.uint8)

        return answer

    def gone(self, ids: np.ndarray) -> np.ndarray:
        """Keys int64 whose rows went since the publication that this one follows."""
        parts = [self._ask(i, Header(Kind.GONE), [ids]) for i in range(len(self.shares))]
        return np.concatenate([np.frombuffer(part.result()[1][0], np.int64) for part in parts])

    def stats(self) -> list[dict[str, int]]:
        """Of each shard: rows, bytes, pushes taken and repeated, bytes of the log, keys pulled that had no row."""
        names = ("rows", "bytes", "pushes", "repeated", "log_bytes", "missed")
        return [
            dict(zip(names, map(int, np.frombuffer(frames[0], np.int64)), strict=True))
            for _, frames in self._all(Header(Kind.STATS))
        ]

    def stop(self, seconds: float = 5.0) -> None:
        """Let all shards end; one that ended before it could say so is not waited for longer than this."""
        parts = [self._ask(i, Header(Kind.STOP), []) for i in range(len(self.shares))]
        wait_for(parts, timeout=seconds)

    @property
    def resent(self) -> int:
        """How many requests were sent again."""
        return sum(link.resent for link in self._links)

    def abort(self, error: PaddockError) -> None:
        """Let everything that is not answered, now or later, fail with this error; from any thread."""
        with self._lock:
            self._ending, self._error = True, error
            self._rouse()

    def close(self) -> None:
        """End the thread; what is not answered fails."""
        with self._lock:
            self._ending = True
        self._rouse()
        self._thread.join()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    # -- inside
    def _all(self, header: Header) -> list[Answer]:
        """Ask all shards the same."""
        parts = [self._ask(i, Header(**vars(header)), []) for i in range(len(self.shares))]
        return [part.result() for part in parts]

    def _ask(self, shard: int, header: Header, frames: Sequence[Any]) -> Future[Answer]:
        header.request, header.model, header.dim = next(self._numbers), self._model, self.dim
        check_size(frames, f"{name_of(header.kind)} for shard {shard}")
        future: Future[Answer] = Future()
        with self._lock:
            if self._ending:
                raise self._error
            self._orders.append((shard, Request(header, frames, future)))
            self._rouse()
        return future

    def _rouse(self) -> None:
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def _talk(self) -> None:
        """The thread."""
        try:
            while not self._ending:
                self._turn()
        except Exception as e:
            self._error = StateError(f"shards: the connection ended ({type(e).__name__}: {e})")
            self._error.__cause__ = e
        with self._lock:
            self._ending = True
            left = list(self._orders)
        for _, request in left:
            request.future.set_exception(self._error)
        for link in self._links:
            link.fail(self._error)
            link.close()
        self._context.destroy(linger=0)

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        z = zmq()
        poller = z.Poller()
        poller.register(self._wake, z.POLLIN)
        for link in self._links:
            if link.socket is not None:
                poller.register(link.socket, z.POLLIN)
        poller.poll(_TICK_MS)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._orders:
            shard, request = self._orders.popleft()
            self._links[shard].ask(request)
        for link in self._links:
            link.hear()
            link.tick()


_NONE = np.zeros(0, np.float32)


def _joined(answers: Sequence[Answer]) -> np.ndarray:
    """The numbers of all shards, float32, one after the other."""
    return np.concatenate([np.frombuffer(frames[0], np.float32) for _, frames in answers])
