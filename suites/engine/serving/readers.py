"""Processes that read what clients send: one that hangs or takes too much memory is ended, and the server goes on.

A reader makes items of JSON values (base64, pictures, texts, rows) and batches of items. It has a bound of seconds for
each order and one of memory. The server's own process runs a processor on a client's bytes only where the processor
says that this is bounded (`is_quick`). So health, metrics and signals never wait, even where a reader holds Python's
lock for ever. While all readers are busy for long, spare ones are started: items that hang keep no others waiting.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from multiprocessing import get_context, util
from typing import Any

from framework import limits
from framework.data.blocks import pack
from framework.data.exchange import Held, Parcel, parcel, receive, receive_parcels, send, send_parcels
from framework.data.pool import default_start_method, start_fork_server
from framework.errors import AttributeValueError, PaddockError
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import Processor
from suites.engine.serving.errors import Broken, DeadlineExceeded, QueueFull, RequestError, TooLarge
from suites.engine.serving.reading import (
    Batches,
    Bounds,
    Drawing,
    Further,
    Order,
    ReadItems,
    Said,
    carry_out,
    draw_each,
    main,
    read_items,
)

_START_SECONDS = 60.0  # for a reader to import what it needs
_END_SECONDS = 5.0  # to wait for the end of one that was killed
_BRIEF = 0.25  # seconds after which an order is slow, and in which no reader came free where a spare one is started
_SPARES = 3  # for each reader
_KEPT_SECONDS = 30.0  # that spare readers stay after the last was wanted


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
        self._held = Held()
        self.process = context.Process(target=main, args=(theirs,), daemon=True, name="paddock-reader")
        self.process.start()
        theirs.close()
        send(self._connection, (processor, bounds, limits.current()))
        self.ready = False

    def items(self, values: Sequence[Any], seconds: float, slow: Callable[[], None]) -> ReadItems:
        """The items of values; raises Hung, _Lost, or what the reader said."""
        with self._watched("the items"):
            self._order("items")
            send(self._connection, values)
            found: ReadItems = _told(self._answer("the items", seconds, slow))
            return found._replace(items=receive_parcels(self._connection, self._held)) if values else found

    def batches(self, items: Sequence[Any], seconds: float, slow: Callable[[], None]) -> Iterator[Batch]:
        """The batches of items, one by one; raises as `items` does. It may be left in the middle."""
        with self._watched("a batch"):
            self._order("batches")
            send_parcels(self._connection, [v if isinstance(v, Parcel) else parcel(v) for v in items])
            said = self._answer("a batch", seconds, slow)
            while said.kind == "more":
                wanted: Further = "stop"
                try:
                    yield said.value
                    wanted = "next"
                finally:
                    self._connection.send(wanted)
                said = self._answer("a batch", seconds, slow)
            if (last := _told(said)) is not None:
                yield last

    def drawings(self, values: Sequence[Any], results: Sequence[Any], seconds: float) -> list[Drawing]:
        """The items of values drawn with their results; raises as `items` does."""
        with self._watched("the items again"):
            self._order("drawings")
            send(self._connection, (values, results))
            found: list[Drawing] = _told(self._answer("the items again", seconds, lambda: None))
            return found

    def _order(self, order: Order) -> None:
        if not self.ready:
            self._started()
        self._connection.send((order, self._held.done()))

    def _answer(self, what: str, seconds: float, slow: Callable[[], None]) -> Said:
        if not self._connection.poll(min(_BRIEF, seconds)):
            slow()
            if not self._connection.poll(seconds - min(_BRIEF, seconds)):
                raise Hung(what, seconds)
        said: Said = receive(self._connection)
        return said

    @contextlib.contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        try:
            yield
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
        self.process.join(_END_SECONDS)
        self._connection.close()


class Reads(ABC):
    """What makes items and batches; safe to use from any thread."""

    @abstractmethod
    def items(self, values: Sequence[Any], patience: float) -> ReadItems:
        """Items of the JSON values of one request, waiting so many seconds for a free reader.

        Raises RequestError for a value that is no item, TooLarge for items over the bound, and Hung, QueueFull or
        Broken where reading did not end well.
        """

    @abstractmethod
    def batches(
        self, items: Sequence[Any], patience: float, slow: Callable[[], None] = lambda: None
    ) -> Generator[Batch]:
        """The batches of items, as `items` gave them, one by one; it may be closed in the middle.

        Args:
            items: that go together.
            patience: seconds to wait for a free reader.
            slow: called where it takes long, at most a few times for each batch, before it is there.

        Raises PaddockError for items that do not go together, and as `items` does.
        """

    @abstractmethod
    def drawings(self, values: Sequence[Any], results: Sequence[Any], patience: float) -> list[Drawing]:
        """The items of values, each drawn with its result; raises as `items` does."""

    def start(self) -> None:  # noqa: B027  (nothing to start)
        """Start what the first request would otherwise wait for."""

    def trouble(self) -> str | None:
        """What is wrong, in words; None if nothing is."""
        return None

    def close(self) -> None:  # noqa: B027  (nothing to end)
        """End what runs; what is being read is lost."""


class Here(Reads):
    """Reads in this process, without a bound of seconds and memory."""

    def __init__(self, processor: Processor, bounds: Bounds) -> None:
        self._processor, self._bounds = processor, bounds

    def items(self, values: Sequence[Any], patience: float) -> ReadItems:
        """See `Reads`."""
        found: ReadItems = _told(
            carry_out(self._bounds, partial(read_items, self._processor, self._bounds.decoded, values))
        )
        return found

    def batches(
        self, items: Sequence[Any], patience: float, slow: Callable[[], None] = lambda: None
    ) -> Generator[Batch]:
        """See `Reads`."""
        made = Batches(self._processor, self._bounds, items)
        while (said := made.next()).kind == "more":
            yield said.value
        if (last := _told(said)) is not None:
            yield last

    def drawings(self, values: Sequence[Any], results: Sequence[Any], patience: float) -> list[Drawing]:
        """See `Reads`."""
        work = partial(draw_each, self._processor, self._bounds.decoded, values, results)
        found: list[Drawing] = _told(carry_out(self._bounds, work))
        return found


class Readers(Reads):
    """A few readers, used by many threads. They start by `start` or when they are wanted, and spare ones in need.

    Args:
        processor: what reads; it travels to the readers as a data set does to data workers.
        count: of processes; 2 or more, so that one that hangs leaves another. In need there are `most(count)`.
        bounds: of seconds and memory, for each order.
        on_end: called with why, when a reader was ended or ended by itself.

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
        self._count, self._most = count, most_readers(count)
        self._free = threading.Condition()
        self._closed = False
        self._all: set[_Reader] = set()
        # At the interpreter's end before it sends SIGTERM, which readers leave to the server, and waits for them.
        util.Finalize(self, _end, (self._all,), exitpriority=10)
        self._idle: list[_Reader] = []
        self._places = 0  # readers that are there or are being started
        self._needed = -math.inf  # when a spare one was wanted last
        self._freed = -math.inf  # when one came free last
        self._failed = False  # whether the last one could not be started

    def items(self, values: Sequence[Any], patience: float) -> ReadItems:
        """See `Reads`."""
        with self._one(patience, lambda: None) as reader:
            return reader.items(values, self._bounds.seconds, lambda: None)

    def batches(
        self, items: Sequence[Any], patience: float, slow: Callable[[], None] = lambda: None
    ) -> Generator[Batch]:
        """See `Reads`."""
        with self._one(patience, slow) as reader:
            yield from reader.batches(items, self._bounds.seconds, slow)

    def drawings(self, values: Sequence[Any], results: Sequence[Any], patience: float) -> list[Drawing]:
        """See `Reads`."""
        with self._one(patience, lambda: None) as reader:
            return reader.drawings(values, results, self._bounds.seconds)

    @contextlib.contextmanager
    def _one(self, patience: float, slow: Callable[[], None]) -> Iterator[_Reader]:
        """A reader for the time of the block; one that hangs or is lost in it is replaced."""
        reader = self._take(patience, slow)
        try:
            if reader is None:
                slow()
                reader = self._new()
            yield reader
        except Hung as error:
            self._drop(reader, str(error))
            raise
        except (PaddockError, ReaderBug, GeneratorExit):  # its answer, or it was told that no more is wanted
            self._give(reader)
            raise
        except (_Lost, OSError, EOFError) as error:
            self._drop(reader, str(error))
            raise Broken(str(error)) from None
        except BaseException as error:  # in the middle of an exchange: what comes next would be out of step
            self._drop(reader, f"{type(error).__name__}: {error}")
            raise
        self._give(reader)

    def start(self) -> None:
        """See `Reads`."""
        with self._free:
            wanted, self._places = self._count - self._places, max(self._count, self._places)
        for _ in range(wanted):
            self._give(self._new())

    def trouble(self) -> str | None:
        """See `Reads`."""
        with self._free:
            return "no reader can be started" if self._failed and not self._all and not self._closed else None

    def close(self) -> None:
        """See `Reads`."""
        with self._free:
            self._closed = True
            self._free.notify_all()
            _end(self._all)

    def _new(self) -> _Reader:
        try:
            reader = _Reader(self._context, self._processor, self._bounds)
        except (OSError, EOFError):
            self._failed = True
            raise
        self._failed = False
        with self._free:
            self._all.add(reader)
            if self._closed:
                reader.end()
        return reader

    def _take(self, patience: float, slow: Callable[[], None]) -> _Reader | None:
        """A reader, or None: a place for one that the caller starts."""
        start = time.monotonic()
        with self._free:
            while not self._idle:
                now = time.monotonic()
                if self._closed or now >= start + patience:
                    raise QueueFull(f"all readers were busy for {patience:.1f} s; try again in 1 s", 1)
                stuck = now >= max(start, self._freed) + _BRIEF
                if self._has_place(stuck):
                    self._places += 1
                    return None
                if stuck:
                    slow()
                self._free.wait(min(_BRIEF, start + patience - now))
            return self._idle.pop()  # the one that was used last: its memory is warm

    def _has_place(self, stuck: bool) -> bool:
        """Whether one more may be started; `stuck` where none came free for long, as all are at slow orders."""
        if stuck and self._places >= self._count:
            self._needed = time.monotonic()
        return self._places < (self._most if stuck else self._count)

    def _give(self, reader: _Reader | None) -> None:
        """Let others have it; one that is spare is ended once none was wanted for long."""
        with self._free:
            self._freed = time.monotonic()
            spare = self._places > self._count and time.monotonic() - self._needed > _KEPT_SECONDS
            if reader is not None and not spare:
                self._idle.append(reader)
                self._free.notify()
                return
        self._leave(reader)

    def _leave(self, reader: _Reader | None) -> None:
        """End a reader and free its place."""
        with self._free:
            self._all.discard(reader)
        if reader is not None:
            reader.end()
        with self._free:
            self._places -= 1
            self._free.notify()

    def _drop(self, reader: _Reader | None, why: str) -> None:
        """End a reader that is of no more use; the next that is wanted is started at once, where it is no spare."""
        self._leave(reader)
        if self._closed:
            return
        self._on_end(why)
        with self._free:
            if self._places >= self._count:
                return
            self._places += 1
        try:
            self._give(self._new())
        except (OSError, EOFError):
            self._leave(None)


def most_readers(count: int) -> int:
    """Readers that there may be in need, where `count` are wanted."""
    return count * (1 + _SPARES)


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
