"""The reader's process: JSON values to items, items to batches, within its memory; see `readers`."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

from framework import limits
from framework.data.exchange import receive, receive_each, send, send_each
from framework.data.kept import KeptBlocks
from framework.data.worker import limit_library_threads
from framework.errors import PaddockError
from framework.system.memory import bound_growth
from framework.system.signals import ENDING
from suites.engine.contract.batch import Batch
from suites.engine.contract.capabilities import ManyBatches, picture
from suites.engine.predict.items import batches_of

_LATER = 2.0  # seconds that the server has to end a reader before the system does
_KEPT_BYTES = 64 << 20  # that a reader keeps for later requests: of shared memory, and of what it freed
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_MOST_TOLD = 20_000  # characters of an error


@dataclass(frozen=True)
class Bounds:
    """What a reader may take.

    Args:
        seconds: for one order. The server ends a reader that takes longer; where there is no server any more, the
            system does a little later.
        decoded: bytes that the items of one request take once they are decoded.
        memory: bytes beyond what the process has when it is ready, where the system can bound them.
    """

    seconds: float
    decoded: int
    memory: int


Order = Literal["items", "batches", "drawings"]  # to make of JSON values, of items, or of values and results
Further = Literal["next", "stop"]  # whether the batch after one that was sent is wanted


class ReadItems(NamedTuple):
    """Items, of each its cost and whether its end was left out; the bytes that they take.

    Out of a reader come parcels in place of items: the server hands them on to a reader for a batch.
    """

    items: list[Any]
    costs: list[int]
    truncated: list[bool]
    decoded: int


class Drawing(NamedTuple):
    """An item with what is predicted for it.

    Args:
        kind: `image/jpeg`, or `text/plain`.
        data: a file, or UTF-8.
    """

    kind: str
    data: bytes


class Said(NamedTuple):
    """An answer.

    Args:
        kind: "done" with a value, "more" with one of several; or why not: "large", "item" (which one is wrong),
            "refused", or an error's type.
        value: what it came to, or a message.
    """

    kind: str
    value: Any


def main(connection: Connection) -> None:
    """Carry out orders until the parent goes away."""
    for number in ENDING:  # of the terminal or the group: the parent's to heed
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process, whoever holds Python's lock
    with contextlib.suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: Connection) -> None:
    processor, bounds, allowed = receive(connection)
    limits.settle(**vars(allowed))
    limit_library_threads()
    bound_growth(bounds.memory)
    keep_freed_memory()
    send(connection, Said("done", None))
    kept = KeptBlocks(_KEPT_BYTES)
    while True:
        order, free = connection.recv()
        kept.put_back(free)
        if order == "items":
            _send_items(connection, processor, bounds, kept)
        elif order == "drawings":
            _send_drawings(connection, processor, bounds)
        else:
            _send_batches(connection, processor, bounds)


def _send_items(connection: Connection, processor: Any, bounds: Bounds, kept: KeptBlocks) -> None:
    with _timed(bounds):
        said = carry_out(bounds, partial(read_items, processor, bounds.decoded, receive(connection)))
    items: list[Any] = []
    if isinstance(said.value, ReadItems):
        items, said = said.value.items, Said("done", said.value._replace(items=[]))
    send(connection, said)
    if items:
        send_each(connection, items, kept)


def _send_drawings(connection: Connection, processor: Any, bounds: Bounds) -> None:
    with _timed(bounds):
        values, results = receive(connection)
        said = carry_out(bounds, partial(draw_each, processor, bounds.decoded, values, results))
    send(connection, said)


def _send_batches(connection: Connection, processor: Any, bounds: Bounds) -> None:
    """Send one batch after the other, each when it is wanted, so that one alone is in memory."""
    with _timed(bounds):
        batches = Batches(processor, bounds, receive_each(connection))
        said = batches.next()
    send(connection, said)
    while said.kind == "more" and connection.recv() == "next":
        del said
        with _timed(bounds):
            said = batches.next()
        send(connection, said)


@contextlib.contextmanager
def _timed(bounds: Bounds) -> Iterator[None]:
    """Inside, the system ends this process where it takes too long."""
    signal.setitimer(signal.ITIMER_REAL, bounds.seconds + _LATER)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


class Batches:
    """The batches of some items, made one by one.

    Args:
        processor: makes them.
        bounds: for the message where one takes too much.
        items: as `from_json` gave them.
    """

    def __init__(self, processor: Any, bounds: Bounds, items: Sequence[Any]) -> None:
        self._bounds = bounds
        self._several = isinstance(processor, ManyBatches)
        self._made = self._make(processor, items)

    @staticmethod
    def _make(processor: Any, items: Sequence[Any]) -> Iterator[Batch]:
        yield from batches_of(processor, items)

    def next(self) -> Said:
        """The next batch: "more" where there may be others behind it, "done" with None where there was none."""
        said = carry_out(self._bounds, lambda: next(self._made, None))
        return Said("more", said.value) if said.kind == "done" and said.value is not None and self._several else said


def carry_out(bounds: Bounds, work: Callable[[], Any]) -> Said:
    """What a piece of work comes to."""
    try:
        return Said("done", work())
    except _TooMuch as error:
        return Said("large", str(error))
    except _WrongItem as error:
        return Said("item", str(error)[:_MOST_TOLD])
    except PaddockError as error:
        return Said("refused", str(error)[:_MOST_TOLD])
    except MemoryError:
        return Said("large", f"reading it takes more memory than the {bounds.memory >> 20} MB allowed")
    except Exception as error:
        return Said(type(error).__name__, traceback.format_exc()[-_MOST_TOLD:])


class _TooMuch(Exception):
    """Items take more than they may."""


class _WrongItem(Exception):
    """A value is no item; says which and why."""


def read_items(processor: Any, most: int, values: Sequence[Any]) -> ReadItems:
    """Items of values, whose size is known and bounded before the first is made."""
    size = sum(_of_each(processor.decoded_bytes, values))
    if size > most:
        raise _TooMuch(
            f"the items take {size} bytes once decoded; {most} are allowed (--max-decoded-mb), split the request"
        )
    items = _of_each(processor.from_json, values)
    return ReadItems(items, [processor.cost(i) for i in items], [processor.truncated(i) for i in items], size)


def draw_each(processor: Any, most: int, values: Sequence[Any], results: Sequence[Any]) -> list[Drawing]:
    """The items of values, each with what is predicted for it."""
    items = read_items(processor, most, values).items
    return [_drawn(processor, item, result) for item, result in zip(items, results, strict=True)]


def _drawn(processor: Any, item: Any, result: Any) -> Drawing:
    drawing = processor.draw(item, result)
    if isinstance(drawing, str):
        return Drawing("text/plain", drawing.encode())
    return Drawing("image/jpeg", picture(processor, drawing, ".jpg"))


def _of_each(work: Any, values: Sequence[Any]) -> list[Any]:
    found = []
    for index, value in enumerate(values):
        try:
            found.append(work(value))
        except PaddockError as error:
            raise _WrongItem(f"item {index}: {error}") from None
    return found


def keep_freed_memory() -> None:
    """Let this process keep some of what it frees: a picture of megabytes otherwise costs each page anew."""
    with contextlib.suppress(AttributeError, OSError):  # glibc has it
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES // 2)  # the most that glibc takes
