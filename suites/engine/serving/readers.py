"""Processes that read what clients send: one that hangs or takes too much memory is ended, and the server goes on.

A reader makes items of JSON values (base64, pictures, texts, rows) and batches of items. It has a bound of seconds for
each order and one of memory. The server's own process runs no code of a processor on a client's bytes but `results`,
so health, metrics and signals never wait for it, even where that code holds Python's lock for ever.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from multiprocessing import get_context, util
from typing import Any

from framework import limits
from framework.data.blocks import pack
from framework.data.exchange import receive, receive_parcels, send, send_parcels
from framework.data.pool import default_start_method, start_fork_server
from framework.errors import AttributeValueError, PaddockError
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import Processor
from suites.engine.serving.errors import Broken, DeadlineExceeded, QueueFull, RequestError, TooLarge
from suites.engine.serving.reading import Bounds, Order, ReadItems, Said, carry_out, main

_START_SECONDS = 60.0  # for a reader to import what it needs


class ReaderBug(Exception):
    """A processor raised what is no refusal; the message has the reader's traceback."""


class Hung(DeadlineExceeded):
    """Reading took longer than it may, and its process was ended.

    Attributes:
        seconds: that it may take.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"reading {what} took longer than {seconds:g} s and was ended (--read-seconds)")
        self.seconds = seconds


class _Lost(Exception):
    """A reader ended by itself."""


class _Reader:
    """One process, and this end of its pipe."""

    def __init__(self, context: Any, processor: Any, bounds: Bounds) -> None:
        self._connection, theirs = context.Pipe(duplex=True)
        self.process = context.Process(target=main, args=(theirs,), daemon=True, name="paddock-reader")
        self.process.start()
        theirs.close()
        send(self._connection, (processor, bounds, limits.current()))
        self.ready = False

    def ask(self, order: Order, values: Sequence[Any], seconds: float) -> Any:
        """What an order comes to; raises Hung, _Lost, or what the reader said."""
        what = "the items" if order == "items" else "a batch"
        try:
            if not self.ready:
                self._started()
            self._connection.send(order)
            (send if order == "items" else send_parcels)(self._connection, values)
            if not self._connection.poll(seconds):
                raise Hung(what, seconds)
            found = _told(receive(self._connection))
            if order == "items" and values:
                found = found._replace(items=receive_parcels(self._connection))
            return found
        except (EOFError, ConnectionError):
            self.process.join(5)
            raise _Lost(f"reading {what} ended its process ({_how(self.process.exitcode)})") from None

    def _started(self) -> None:
        if not self._connection.poll(_START_SECONDS):
            raise _Lost(f"a reader did not start within {_START_SECONDS:.0f} s")
        _told(receive(self._connection))
        self.ready = True

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self._connection.close()


class Reads(ABC):
    """What makes items and batches; safe to use from any thread."""

    @abstractmethod
    def ask(self, order: Order, values: Sequence[Any], patience: float) -> Any:
        """What an order comes to: `ReadItems` or a batch.

        Args:
            order: what to do.
            values: JSON values, or items as `items` gave them.
            patience: seconds to wait for a free reader.

        Raises RequestError for a value that is no item, TooLarge for items over the bound, PaddockError for items that
        do not go together, and Hung, QueueFull or Broken where reading did not end well.
        """

    def items(self, values: Sequence[Any], patience: float) -> ReadItems:
        """Items of the JSON values of one request."""
        found: ReadItems = self.ask("items", list(values), patience)
        return found

    def batch(self, items: Sequence[Any], patience: float) -> Batch:
        """A batch of items."""
        found: Batch = self.ask("batch", list(items), patience)
        return found

    def trouble(self) -> str | None:
        """What is wrong, in words; None if nothing is."""
        return None

    def close(self) -> None:  # noqa: B027  (nothing to end)
        """End what runs; what is being read is lost."""


class Here(Reads):
    """Reads in this process, without a bound of seconds and memory."""

    def __init__(self, processor: Processor, bounds: Bounds) -> None:
        self._processor, self._bounds = processor, bounds

    def ask(self, order: Order, values: Sequence[Any], patience: float) -> Any:
        """See `Reads`."""
        return _told(carry_out(self._processor, self._bounds, order, values))


class Readers(Reads):
    """A few readers, used by many threads.

    Args:
        processor: what reads; it travels to the readers as a data set does to data workers.
        count: of processes; 2 or more, so that one that hangs leaves another.
        bounds: of seconds and memory, for each order.
        on_end: called with why, when a reader was ended or ended by itself and is replaced.

    Raises AttributeValueError for a processor that cannot travel.
    """

    def __init__(self, processor: Processor, count: int, bounds: Bounds, on_end: Callable[[str], None]) -> None:
        self._processor, self._bounds, self._on_end = processor, bounds, on_end
        try:
            pack(processor)
        except Exception as error:
            raise AttributeValueError(f"serving: {type(processor).__name__} cannot travel ({error})") from error
        self._context = get_context(default_start_method())
        if self._context.get_start_method() == "forkserver":
            start_fork_server(["suites.engine.serving.reading", type(processor).__module__])
        self._free = threading.Condition()
        self._closed = False
        self._all: set[_Reader] = set()
        # At the interpreter's end before it sends SIGTERM, which readers leave to the server, and waits for them.
        util.Finalize(self, _end, (self._all,), exitpriority=10)
        self._idle: list[_Reader | None] = [self._new() for _ in range(count)]  # None: one that could not be started

    def ask(self, order: Order, values: Sequence[Any], patience: float) -> Any:
        """See `Reads`."""
        reader = self._take(patience)
        try:
            reader = reader or self._new()
            return reader.ask(order, values, self._bounds.seconds)
        except (Hung, _Lost, OSError) as error:
            reader = self._another(reader, str(error))
            if isinstance(error, Hung):
                raise
            raise Broken(str(error)) from None
        finally:
            self._give(reader)

    def trouble(self) -> str | None:
        """See `Reads`."""
        with self._free:
            return None if self._all or self._closed else "no reader can be started"

    def close(self) -> None:
        """See `Reads`."""
        with self._free:
            self._closed = True
            self._free.notify_all()
            _end(self._all)

    def _new(self) -> _Reader:
        reader = _Reader(self._context, self._processor, self._bounds)
        with self._free:
            self._all.add(reader)
        return reader

    def _take(self, patience: float) -> _Reader | None:
        end = time.monotonic() + patience
        with self._free:
            while not self._idle:
                left = end - time.monotonic()
                if self._closed or left <= 0:
                    raise QueueFull(f"all readers were busy for {patience:.1f} s; try again in 1 s", 1)
                self._free.wait(left)
            return self._idle.pop()  # the one that was used last: its memory is warm

    def _give(self, reader: _Reader | None) -> None:
        with self._free:
            self._idle.append(reader)
            self._free.notify()

    def _another(self, reader: _Reader | None, why: str) -> _Reader | None:
        """A reader in the place of one that is of no more use; None where none can be started now."""
        with self._free:
            self._all.discard(reader)
        if reader is not None:
            reader.end()
        if self._closed:
            return None
        self._on_end(why)
        try:
            return self._new()
        except (OSError, EOFError):
            return None


def _end(readers: set[_Reader]) -> None:
    for reader in list(readers):
        reader.end()


def _told(said: Said) -> Any:
    """What a reader answered, or its error raised here."""
    if said.kind == "done":
        return said.value
    if said.kind == "large":
        raise TooLarge(said.value)
    if said.kind == "item":
        raise RequestError(said.value)
    if said.kind == "refused":
        raise PaddockError(said.value)
    raise type(said.kind, (ReaderBug,), {})(said.value)


def _how(status: int | None) -> str:
    return f"signal {-status}" if status is not None and status < 0 else f"status {status}"
