"""Bounds on what a process may take: the system refuses more, or a thread looks and ends the process.

Linux refuses: what is asked for beyond the bound is a MemoryError. Elsewhere a thread asks psutil every few
milliseconds how much the process has, and ends it beyond the bound, so whoever waits for its answer hears that it died.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

REFUSES = resource is not None and sys.platform == "linux"
_LOOK = 0.01  # seconds between two looks
_OVER = 70  # how a process ends that has more than it may


@contextlib.contextmanager
def bounded(most: int) -> Iterator[None]:
    """Inside, this process may take `most` bytes more than it has: for one that does nothing else meanwhile."""
    if REFUSES:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + most, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return
    done = threading.Event()
    looking = threading.Thread(target=_end_beyond, args=(_held() + most, done), daemon=True)
    looking.start()
    try:
        yield
    finally:
        done.set()
        looking.join()


def bound_process(most: int) -> None:
    """From now on this process may have `most` bytes."""
    if REFUSES:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    else:
        threading.Thread(target=_end_beyond, args=(most, threading.Event()), daemon=True).start()


def bound_growth(most: int) -> None:
    """Let this process take so many bytes more than it has; what is mapped and shared does not count.

    Where the system does not count that, nothing is bounded.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        has = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (has + most, has + most))


def bound_files(pid: int, most: int) -> None:
    """Bound the size of files that a process writes, where the system can; one that ended already needs no bound."""
    with contextlib.suppress(AttributeError, ProcessLookupError):  # prlimit is Linux's
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def _held() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _end_beyond(most: int, done: threading.Event) -> None:
    while not done.wait(_LOOK):
        if _held() > most:
            os._exit(_OVER)
