"""The reader's process: JSON values to items, items to batches, within its memory; see `readers`."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from framework import limits
from framework.data.exchange import receive, receive_each, send, send_each
from framework.data.kept import KeptBlocks
from framework.data.worker import limit_library_threads
from framework.errors import PaddockError

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


Order = Literal["items", "batch"]  # to make of JSON values, or of items


class ReadItems(NamedTuple):
    """Items, of each its cost and whether its end was left out; the bytes that they take.

    Out of a reader come parcels in place of items: the server hands them on to a reader for a batch.
    """

    items: list[Any]
    costs: list[int]
    truncated: list[bool]
    decoded: int


class Said(NamedTuple):
    """An answer: "done" with a value, or why not: "large", "item" (which one is wrong), "refused", an error's type."""

    kind: str
    value: Any


def main(connection: Connection) -> None:
    """Carry out orders until the parent goes away."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # of the terminal or the group: the parent's to heed
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process, whoever holds Python's lock
    with contextlib.suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: Connection) -> None:
    processor, bounds, allowed = receive(connection)
    limits.settle(**vars(allowed))
    limit_library_threads()
    bound_memory(bounds.memory)
    keep_freed_memory()
    send(connection, Said("done", None))
    kept = KeptBlocks(_KEPT_BYTES)
    while True:
        order, free = connection.recv()
        kept.put_back(free)
        signal.setitimer(signal.ITIMER_REAL, bounds.seconds + _LATER)
        said = carry_out(processor, bounds, order, _values(connection, order))
        signal.setitimer(signal.ITIMER_REAL, 0)
        items: list[Any] = []
        if isinstance(said.value, ReadItems):
            items, said = said.value.items, Said("done", said.value._replace(items=[]))
        send(connection, said)
        if items:
            send_each(connection, items, kept)
        del said, items  # before the next order, which may be long in coming


def _values(connection: Connection, order: Order) -> list[Any]:
    found: list[Any] = receive(connection) if order == "items" else receive_each(connection)
    return found


def carry_out(processor: Any, bounds: Bounds, order: Order, values: Sequence[Any]) -> Said:
    """What an order comes to."""
    try:
        if order == "items":
            return Said("done", read_items(processor, bounds.decoded, values))
        return Said("done", processor.prepare(values))
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


def _of_each(work: Any, values: Sequence[Any]) -> list[Any]:
    found = []
    for index, value in enumerate(values):
        try:
            found.append(work(value))
        except PaddockError as error:
            raise _WrongItem(f"item {index}: {error}") from None
    return found


def bound_memory(most: int) -> None:
    """Let this process take so many bytes more than it has; what is mapped and shared does not count."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):  # Linux counts it
        import resource

        lines = Path("/proc/self/status").read_text().splitlines()
        has = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (has + most, has + most))


def keep_freed_memory() -> None:
    """Let this process keep some of what it frees: a picture of megabytes otherwise costs each page anew."""
    with contextlib.suppress(AttributeError, OSError):  # glibc has it
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES // 2)  # the most that glibc takes
