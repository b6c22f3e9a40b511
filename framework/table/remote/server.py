"""Server: one shard behind a ZeroMQ socket.

Requests are taken one after the other; answers go out after the log's commit. A checkpoint runs in a thread of its own,
beside pulls and pushes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework import limits
from framework.errors import NotSupportedError, PaddockError, StateError
from framework.table.remote import store
from framework.table.remote.optional import zmq
from framework.table.remote.secure import Guard, Key
from framework.table.remote.shard import Gap, Shard
from framework.table.remote.wire import Header, Kind, arrays_of, check_size, error_frame, name_of, receive_frames

_log = logging.getLogger(__name__)
_BURST = 64  # requests that are answered together, after one commit
_IDLE_MS = 200
Reply = tuple[Header, Sequence[Any]]


@dataclass
class _Late:
    """What takes long: who asked last, and what is to be done."""

    sender: list[Any]
    header: Header
    key: tuple[Any, ...]
    work: Callable[[], None]


class Server:
    """Answers for a shard until it is stopped.

    Args:
        shard: whose rows it serves.
        address: to listen at; a port of `*` takes a free one.
        checkpoint_bytes: a log of so many bytes is followed by a checkpoint.
        checkpoint_seconds: so long after the last one a checkpoint is taken, if anything was pushed since.
        key: that clients must have; None for none.

    Attributes:
        address: where it listens.

    Raises NotSupportedError where pyzmq is not installed, StateError where the address cannot be had.
    """

    def __init__(
        self,
        shard: Shard,
        address: str = "tcp://127.0.0.1:*",
        *,
        checkpoint_bytes: int = 1 << 30,
        checkpoint_seconds: float = 300.0,
        key: Key | None = None,
    ) -> None:
        z = zmq()
        self.shard = shard
        self._bytes, self._seconds = checkpoint_bytes, checkpoint_seconds
        self._context = z.Context()
        self._guard = Guard(self._context, key)
        self._router = self._context.socket(z.ROUTER)
        self._guard.protect(self._router)
        self._router.setsockopt(z.LINGER, 1000)
        self._router.setsockopt(z.SNDHWM, 0)  # clients bound what is on its way
        self._router.setsockopt(z.MAXMSGSIZE, limits.current().message_bytes)
        try:
            self._router.bind(address)
        except z.ZMQError as error:
            self._guard.close()
            self._context.destroy(linger=0)
            raise StateError(f"shard: cannot listen at {address} ({error.strerror})") from None
        self.address = str(self._router.getsockopt_string(z.LAST_ENDPOINT))
        self._stop = threading.Event()
        self._worker: threading.Thread | None = None
        self._late: list[_Late] = []  # what the thread is at, and has still to do
        self._at_work: _Late | None = None
        self._done: list[tuple[_Late, Reply]] = []
        self._saved = time.monotonic() - store.age(shard.folder)

    def stop(self) -> None:
        """End `run` soon; from any thread."""
        self._stop.set()

    def run(self) -> None:
        """Answer until `stop` is called or a STOP comes; then close shard and socket."""
        z = zmq()
        try:
            while not self._stop.is_set():
                if self._router.poll(_IDLE_MS if self._worker is None else 5):
                    self._answer_burst()
                self.shard.commit()
                self._work_on()
                if self.shard.failed is not None:
                    raise self.shard.failed
        finally:
            if self._worker is not None:
                self._worker.join()
            self.shard.close()
            self._router.close()
            self._guard.close()
            self._context.destroy(linger=1000)
            del z

    def _answer_burst(self) -> None:
        z = zmq()
        replies: list[tuple[list[Any], Reply]] = []
        for _ in range(_BURST):
            try:
                sender, *frames = receive_frames(self._router, z.NOBLOCK)
            except z.Again:
                break
            reply = self._handle([sender], frames)
            if reply is not None:
                replies.append(([sender], reply))
        try:
            self.shard.commit()
        except OSError as error:
            self.shard.failed = StateError(f"{self.shard.folder}: the log cannot be brought to disk ({error})")
            return
        if self.shard.failed is not None:
            replies = [(to, reply) for to, reply in replies if reply[0].kind == Kind.ERROR]
        for to, reply in replies:
            self._send(to, reply)

    def _send(self, to: list[Any], reply: Reply) -> None:
        header, frames = reply
        self._router.send_multipart([*to, header.packed(), *frames], copy=False)

    def _handle(self, sender: list[Any], frames: Sequence[Any]) -> Reply | None:
        """The reply; None where it comes later."""
        request = 0
        try:
            if not frames:
                raise StateError("shard: a message without a frame; is the address right?")
            header = Header.unpacked(frames[0].buffer)
            request = header.request
            self._expect_model(header)
            buffers = [frame.buffer for frame in frames[1:]]
            check_size(buffers, name_of(header.kind))
            return self._done_of(sender, header, buffers)
        except PaddockError as error:
            return Header(Kind.ERROR, request), [error_frame(error)]
        except Exception as error:
            _log.exception("shard: a request failed")
            return Header(Kind.ERROR, request), [error_frame(error)]

    def _expect_model(self, header: Header) -> None:
        dim = self.shard.table.dim
        if header.dim != dim:
            raise StateError(f"shard: the sender's rows have {header.dim} columns, those of this shard {dim}")
        if header.model != self.shard.model:
            raise StateError(
                f"shard: the sender trains another model than this shard of table '{self.shard.table.name}' holds "
                "(other initial values, rule, seed or dense weights); start both from one config"
            )

    def _done_of(self, sender: list[Any], header: Header, buffers: Sequence[Any]) -> Reply | None:
        shard, kind = self.shard, header.kind
        if kind in (Kind.SAVE, Kind.CHECKPOINT, Kind.PASS):
            self._ask_later(sender, header, [bytes(part) for part in buffers])
            return None
        arrays = arrays_of(header, buffers)
        ok = Header(Kind.OK, header.request, shard.model)
        if kind == Kind.PULL:
            ok.count = header.count
            return ok, [shard.pull(arrays[0])]
        if kind == Kind.PUSH:
            gap = shard.push(header, arrays)
            if isinstance(gap, Gap):
                return Header(Kind.GAP, header.request, shard.model, sequence=gap.expected), []
            ok.sequence = header.sequence
            return ok, ([shard.dense.copy()] if header.dense and shard.dense is not None else [])
        if kind == Kind.HELLO:
            ok.sequence = shard.hello(header.worker, header.incarnation)
            return ok, []
        if kind == Kind.START:
            return ok, [shard.start(arrays[0]).copy()]
        if kind == Kind.DENSE:
            if shard.dense is None:
                raise StateError("shard: it was not told yet where the dense numbers begin")
            return ok, [shard.dense.copy()]
        if kind == Kind.COUNTS:
            return ok, [shard.counts(arrays[0])]
        if kind == Kind.STATS:
            return ok, [np.array(self._figures(), np.int64)]
        if kind in (Kind.CUT, Kind.ROWS, Kind.GONE):
            return ok, self._published(kind, arrays)
        if kind == Kind.STOP:
            self._stop.set()
            return ok, []
        raise NotSupportedError(f"shard: {name_of(kind)} is nothing that a shard does")

    def _published(self, kind: int, arrays: list[np.ndarray]) -> Sequence[np.ndarray]:
        """See `framework.table.remote.publication`."""
        cuts = self.shard.cuts
        if kind == Kind.CUT:
            cuts.begin(*arrays)
            return []
        found = cuts.rows(*arrays) if kind == Kind.ROWS else (cuts.gone(*arrays),)
        check_size(found, name_of(kind))
        return found

    def _figures(self) -> list[int]:
        shard = self.shard
        stats, log = shard.table.stats(), shard.log.bytes if shard.log is not None else 0
        return [stats.rows, stats.bytes, shard.pushes, shard.repeated, log, stats.missed]

    # -- what takes long
    def _ask_later(self, sender: list[Any], header: Header, buffers: list[bytes]) -> None:
        """Queue a request; one that is asked again while it waits or is done answers who asked last."""
        key = (header.kind, header.request, header.sequence, *buffers)
        for late in [*self._late, *([self._at_work] if self._at_work is not None else [])]:
            if late.key == key:
                late.sender = sender
                return
        self._late.append(_Late(sender, header, key, self._later(header, buffers)))

    def _later(self, header: Header, buffers: Sequence[Any]) -> Callable[[], None]:
        if header.kind == Kind.CHECKPOINT:
            return self.shard.checkpoint
        if header.kind == Kind.PASS:
            return lambda: self._end_pass(header)
        path = Path(bytes(buffers[0]).decode()) if buffers else None
        if path is None:
            raise StateError("shard: save without a folder")
        return lambda: self.shard.save(path)

    def _end_pass(self, header: Header) -> None:
        header.count = self.shard.end_pass(header.sequence, header.incarnation)

    def _work_on(self) -> None:
        """Send what the thread finished, and give it what is next."""
        while self._done:
            late, reply = self._done.pop(0)
            self._send(late.sender, reply)  # who asked last, perhaps since the work ended
        if self._worker is not None and not self._worker.is_alive():
            self._worker = self._at_work = None
        if self._worker is not None:
            return
        if self._late:
            self._at_work = self._late.pop(0)
            self._worker = threading.Thread(target=self._do, args=(self._at_work,), name="paddock-shard-files")
            self._worker.start()
        elif self._due():
            self._saved = time.monotonic()
            self._worker = threading.Thread(target=self._checkpoint_now, name="paddock-shard-files")
            self._worker.start()

    def _due(self) -> bool:
        log = self.shard.log
        if log is None or not log.bytes:
            return False
        return log.bytes >= self._bytes or time.monotonic() - self._saved >= self._seconds

    def _do(self, late: _Late) -> None:
        header = late.header
        try:
            late.work()
            self.shard.commit()
            self._saved = time.monotonic()
            reply: Reply = (Header(Kind.OK, header.request, self.shard.model, count=header.count), [])
        except Exception as error:
            _log.exception("shard: %s failed", name_of(header.kind))
            reply = (Header(Kind.ERROR, header.request), [error_frame(error)])
        self._done.append((late, reply))

    def _checkpoint_now(self) -> None:
        try:
            self.shard.checkpoint()
        except Exception:  # on a full disk the log still holds everything
            _log.exception("shard: a checkpoint failed; the one before counts, and the log goes on")
