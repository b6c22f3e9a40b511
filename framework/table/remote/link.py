"""Link: one shard as a client sees it. Requests stay until they are answered, and are sent again to its successor.

Only the client's thread touches a link.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from framework.errors import PaddockError, StateError
from framework.table.remote.optional import zmq
from framework.table.remote.secure import Key, introduce
from framework.table.remote.wire import Header, Kind, error_of, name_of

_log = logging.getLogger(__name__)
_LOST = 0.25  # seconds between two looks where a shard is whose connection is gone


@dataclass
class Request:
    """What was asked, and where the answer goes."""

    header: Header
    frames: Sequence[Any]
    future: Future[tuple[Header, list[Any]]]


@dataclass(frozen=True)
class Patience:
    """How a client waits for a shard that does not answer.

    Args:
        retry: seconds without an answer after which everything unanswered is sent again, on a new connection to where
            the shard is by then. It doubles each time, up to `longest`.
        longest: see there.
        give_up: seconds without an answer after which the run ends with an error.
    """

    retry: float = 2.0
    longest: float = 15.0
    give_up: float = 300.0


class Link:
    """A connection to shard `number`.

    Args:
        context: ZeroMQ's.
        number: of the shard.
        where: its address; None while it has none, as between the end of one process and the start of the next.
        patience: see there.
        key: of the job; None where shards ask for none.
    """

    def __init__(
        self,
        context: Any,
        number: int,
        where: Callable[[], str | None],
        patience: Patience,
        key: Key | None = None,
    ) -> None:
        self._key = key
        self._context, self.number, self._where, self._patience = context, number, where, patience
        self.socket: Any = None
        self._address: str | None = None
        self._open: OrderedDict[int, Request] = OrderedDict()
        self._heard = self._sent = time.monotonic()
        self._wait = patience.retry
        self.resent = 0
        self.acknowledged: dict[int, int] = {}  # by worker: the last push

    def ask(self, request: Request) -> None:
        """Send a request, now or when the shard can be reached."""
        if not self._open:
            self._heard = self._sent = time.monotonic()
        self._open[request.header.request] = request
        if self.socket is not None or self._connect():
            self._transmit(request)

    def hear(self) -> None:
        """Take all answers that are there."""
        z = zmq()
        while self.socket is not None:
            try:
                head, *frames = self.socket.recv_multipart(z.NOBLOCK, copy=False)
            except z.Again:
                return
            self._heard, self._wait = time.monotonic(), self._patience.retry
            self._sent = self._heard
            self._take(Header.unpacked(head.buffer), frames)

    def tick(self) -> None:
        """Send everything unanswered again where the answer is late; fail where it is hopeless."""
        now = time.monotonic()
        wait = self._wait if self.socket is not None else min(self._wait, _LOST)
        if not self._open or now - self._sent < wait:
            return
        if now - self._heard >= self._patience.give_up:
            self.fail(
                StateError(
                    f"shard {self.number}: no answer from {self._address or 'anywhere'} for "
                    f"{now - self._heard:.0f} seconds; look into its log, then continue with --resume"
                )
            )
            return
        if self.socket is not None:
            _log.info("shard %d: no answer for %.1f s; asking again", self.number, now - self._heard)
            self._wait = min(2 * self._wait, self._patience.longest)
        self.again()

    def again(self) -> None:
        """Connect anew, and send everything unanswered in its order."""
        self._sent = time.monotonic()
        self.close()
        if self._connect():
            self.resent += len(self._open)
            for request in self._open.values():
                self._transmit(request)

    def fail(self, error: PaddockError) -> None:
        """Nothing more comes of what is open."""
        waiting, self._open = list(self._open.values()), OrderedDict()
        for request in waiting:
            request.future.set_exception(error)

    def close(self) -> None:
        """Drop the connection."""
        if self.socket is not None:
            self.socket.close(0)
            self.socket = None

    def _connect(self) -> bool:
        z = zmq()
        self._address = self._where()
        if self._address is None:
            return False
        self.socket = self._context.socket(z.DEALER)
        introduce(self.socket, self._key)
        self.socket.setsockopt(z.LINGER, 0)
        self.socket.setsockopt(z.SNDHWM, 0)
        self.socket.setsockopt(z.RECONNECT_IVL, -1)  # a new process knows nothing of what was on its way
        self.socket.connect(self._address)
        return True

    def _transmit(self, request: Request) -> None:
        """Send it, unless the connection is gone: then it is sent when there is another one."""
        z = zmq()
        if self.socket is None:
            return
        try:
            self.socket.send_multipart([request.header.packed(), *request.frames], z.NOBLOCK, copy=False)
        except z.Again:
            self.close()

    def _take(self, header: Header, frames: list[Any]) -> None:
        request = self._open.get(header.request)
        if request is None:
            return
        if header.kind == Kind.GAP:
            self._close_gap(request.header, header.sequence)
            return
        del self._open[header.request]
        if header.kind == Kind.ERROR:
            request.future.set_exception(error_of(frames[0].buffer))
            return
        if request.header.kind == Kind.PUSH:
            worker = request.header.worker
            self.acknowledged[worker] = max(self.acknowledged.get(worker, 0), request.header.sequence)
        request.future.set_result((header, [frame.buffer for frame in frames]))

    def _close_gap(self, sent: Header, expected: int) -> None:
        """A push before this one was lost on its way: send again from there."""
        known = self.acknowledged.get(sent.worker, 0)
        if expected <= known:
            self.fail(
                StateError(
                    f"shard {self.number}: has forgotten pushes {expected} to {known} of worker {sent.worker}, which "
                    "it had acknowledged: its log did not reach the disk. Begin from the last checkpoint, and think "
                    "about fsync: always"
                )
            )
            return
        if not any(
            r.header.sequence == expected for r in self._open.values() if r.header.kind == Kind.PUSH
        ):  # the answer to it is on its way, or nobody has it
            self.fail(StateError(f"shard {self.number}: awaits push {expected}, and none such is open here"))
            return
        _log.info("shard %d: %s %d was lost on its way; sending again", self.number, name_of(sent.kind), expected)
        self.again()
