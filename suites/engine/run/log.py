"""What a run says: each line goes to the console and, with the time, to the run's `log.txt`."""

from __future__ import annotations

import contextlib
import errno
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

_OURS = ("framework", "suites", "paddock")  # loggers whose reports are shown too, not their warnings alone


class RunLog:
    """Lines for people. `console` is shared with the progress bar, so that lines appear above it."""

    def __init__(self, path: Path | None = None, console: Console | None = None) -> None:
        self.console = console or Console(file=_Screen(), soft_wrap=True, emoji=False)  # type: ignore[arg-type]
        self._file = None if path is None else path.open("a", encoding="utf-8", buffering=1)

    def say(self, text: str) -> None:
        """Show a line and keep it."""
        self.keep(text)
        self.console.print(text, markup=False, highlight=False)

    def keep(self, text: str) -> None:
        """Write a line to the file only."""
        if self._file is not None:
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _Screen:
    """Standard output, where a terminal that was closed is no error: a run must be saved all the same."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)

    def write(self, text: str) -> int:
        with _no_terminal():
            sys.stdout.write(text)
        return len(text)

    def flush(self) -> None:
        with _no_terminal():
            sys.stdout.flush()


@contextlib.contextmanager
def _no_terminal() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise


class _Teller(logging.Handler):
    """Hands each record on as a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        prefix = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        self._say(prefix + record.getMessage())


@contextlib.contextmanager
def heard(say: Callable[[str], None]) -> Iterator[None]:
    """Inside, `say` gets what is reported through Python's `logging`, such as what a data set skipped and why.

    That is everything from Paddock and the warnings of others. Where one stands inside another, the inner one hears.
    """
    root, teller = logging.getLogger(), _Teller(say)
    outer = [handler for handler in root.handlers if isinstance(handler, _Teller)]
    levels = {name: logging.getLogger(name).level for name in _OURS}
    root.handlers[:] = [*(handler for handler in root.handlers if handler not in outer), teller]
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = [*(handler for handler in root.handlers if handler is not teller), *outer]
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
