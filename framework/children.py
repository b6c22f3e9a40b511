"""Child: a process that is asked and answers by its standard input and output, each time before a deadline."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable

from framework import programs

_PIECE = 1 << 16  # bytes that are written at once


class Child:
    """Starts with the first question, and anew after `end` or its own death. One thread asks at a time.

    Args:
        start: starts it, with pipes for input and output.
    """

    def __init__(self, start: Callable[[], programs.Process]) -> None:
        self._start = start
        self._process: programs.Process | None = None

    def write(self, data: bytes, deadline: float) -> None:
        """Hand it all of `data`; the deadline is of `time.monotonic`.

        Raises TimeoutError at the deadline, and EOFError or OSError where it is gone. Then `end` it.
        """
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = self._start()
        assert self._process.stdin is not None
        _move(self._process.stdin.fileno(), deadline, write=data)

    def read(self, count: int, deadline: float) -> bytearray:
        """So many bytes of its answer; raises as `write` does."""
        assert self._process is not None and self._process.stdout is not None
        return _move(self._process.stdout.fileno(), deadline, read=count)

    def end(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _move(fd: int, deadline: float, *, read: int = 0, write: bytes = b"") -> bytearray:
    os.set_blocking(fd, False)
    found, at = bytearray(read), 0
    with selectors.DefaultSelector() as ready:
        ready.register(fd, selectors.EVENT_WRITE if write else selectors.EVENT_READ)
        while at < max(read, len(write)):
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            moved = (
                os.write(fd, memoryview(write)[at : at + _PIECE]) if write else os.readv(fd, [memoryview(found)[at:]])
            )
            if not moved:
                raise EOFError
            at += moved
    return found
