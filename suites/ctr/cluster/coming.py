"""A log that keeps coming, as the head of a run follows it: folder after folder, each a pass, see `LogFolders`."""

from __future__ import annotations

import time
from collections.abc import Callable

from framework.data.logs import LogFolders
from suites.ctr.cluster.work import LogPass, Work


class ComingPasses:
    """Opens the next pass when its folder is complete; where it stands is in the run's `Work`.

    Args:
        folders: that keep filling.
        work: what is dealt out.
        say: tells a line.
    """

    def __init__(self, folders: LogFolders, work: Work, say: Callable[[str], None]) -> None:
        self._folders, self._work, self._say = folders, work, say
        if work.part is not None:
            number = work.epoch - work.waiting
            state = {"pass": work.part.name, "number": number, "seen": list(work.part.seen), "reader": None}
            folders.load_state_dict({**folders.state_dict(), **state})
        self._since: float | None = None  # when the waiting began
        self._next = 0.0

    def look(self) -> None:
        """Open the next pass if one is awaited and complete; end the run's work behind the last one.

        Raises DataError where none came in the time that the source gives.
        """
        if not self._work.waiting or self._work.over:
            return
        now = time.monotonic()
        if self._since is None:
            self._since = self._next = now
        if now < self._next:
            return
        patience = self._folders.patience
        self._next = now + patience.poll
        if self._folders.ended:
            self._work.end()
        elif self._folders.look():
            self._since = None
            self._open()
        elif now - self._since >= patience.seconds:
            patience.give_up(self._folders.what_is_next)
            self._work.end()

    def _open(self) -> None:
        folders = self._folders
        reader = folders.open(folders.name, folders.number)
        units, files = (0, "") if reader is None else (reader.units, reader.files_digest)
        self._work.open(LogPass(folders.name, files, tuple(folders.state_dict()["seen"])), units)
        self._say(f"pass {self._work.epoch} is {folders.name}, in {units} blocks or files")
