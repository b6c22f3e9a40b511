"""A server's log, which no request waits for: a thread writes it, and what nobody takes is dropped and counted."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable

_MOST = 1000  # lines that wait


def to_standard_error(text: str) -> None:
    """Write a line there."""
    print(text, file=sys.stderr, flush=True)


class Log:
    """Takes lines from any thread.

    Args:
        write: writes one; it may take for ever, as where a pipe is full or a terminal is stopped.
    """

    def __init__(self, write: Callable[[str], None] = to_standard_error) -> None:
        self._write = write
        self._lines: queue.Queue[str] = queue.Queue(_MOST)
        self._dropped = 0
        threading.Thread(target=self._run, name="serving-log", daemon=True).start()

    def __call__(self, text: str) -> None:
        """Have a line written soon."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def flush(self, seconds: float) -> None:
        """Wait until what came so far is written, for so long at most."""
        end = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)

    def _run(self) -> None:
        while True:
            text = self._lines.get()
            dropped, self._dropped = self._dropped, 0
            with contextlib.suppress(OSError, ValueError):  # closed, or the disk is full
                self._write(text if not dropped else f"{text}\n({dropped} lines were dropped: nobody took the log)")
            self._lines.task_done()
