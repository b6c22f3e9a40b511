"""What a run says: each line goes to the console and, with the time, to the run's `log.txt`."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console


class RunLog:
    """Lines for people. `console` is shared with the progress bar, so that lines appear above it."""

    def __init__(self, path: Path | None = None, console: Console | None = None) -> None:
        self.console = console or Console(soft_wrap=True, emoji=False)
        self._file = None if path is None else path.open("a", encoding="utf-8", buffering=1)

    def say(self, text: str) -> None:
        """Show a line and keep it."""
        self.console.print(text, markup=False, highlight=False)
        self.keep(text)

    def keep(self, text: str) -> None:
        """Write a line to the file only."""
        if self._file is not None:
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
