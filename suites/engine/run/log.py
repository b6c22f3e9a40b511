"""What a run says: each line goes to the console and, with the time, to the run's `log.txt`."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from framework.atomic import open_to_append
from suites.engine.run.screen import Screen, escaped

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = " " * 20  # as wide as the time before a line
_REMEMBERED = 64  # reports
_OURS = ("framework", "suites", "paddock")  # loggers whose reports are shown too, not their warnings alone


class RunLog:
    """Lines for people, with control characters escaped.

    Neither a screen nor a disk that takes no more of them ends a run: the first failure of one is told to the other.

    Args:
        path: the file; None for none.
        console: by default standard output.
        verbose: show what `detail` says, too.

    Attributes:
        console: shared with the progress bar, so that lines appear above it.
    """

    def __init__(self, path: Path | None = None, console: Console | None = None, *, verbose: bool = False) -> None:
        from rich.console import Console  # here: not every command keeps a log

        self._verbose = verbose
        self._screen = Screen(raw=True)
        self.console = console or Console(file=self._screen, soft_wrap=True, emoji=False)  # type: ignore[arg-type]
        self._file: TextIO | None = None if path is None else open_to_append(path)
        self._silent = False

    def say(self, text: str, brief: str | None = None) -> None:
        """Keep a line and show it, or in its place a brief one to who asks for no details."""
        self.keep(text)
        shown = text if brief is None or self._verbose else brief
        self.console.print(escaped(shown), markup=False, highlight=False)
        self.watch()

    def detail(self, text: str) -> None:
        """Keep a line that only who asks for details is shown."""
        (self.say if self._verbose else self.keep)(text)

    def keep(self, text: str) -> None:
        """Write a line to the file only; further lines of the text are set in."""
        if self._file is None:
            return
        try:
            body = escaped(text).replace("\n", "\n" + _INDENT)
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {body}\n")
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
            self.console.print(f"warning: log.txt takes no more lines ({error.strerror})", markup=False)
        self.watch()

    def watch(self) -> None:
        """Keep a line, once, where nothing can be shown any more."""
        if self._screen.lost is not None and not self._silent:
            self._silent = True
            self.keep(f"the screen takes no more lines ({self._screen.lost}); the run goes on, and this file tells")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


class _Teller(logging.Handler):
    """Hands each record on as a line; what was told lately is not told again, as sets are opened repeatedly."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self._told: deque[str] = deque(maxlen=_REMEMBERED)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._say(f"{record.levelname.lower()}: {text}")
        elif text not in self._told:
            self._told.append(text)
            self._say(text)


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
