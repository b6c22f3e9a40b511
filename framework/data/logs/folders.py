"""LogFolders: logs that keep coming, a folder a pass: `day/HHMM`, each complete when its done-file is there.

folders = LogFolders("logs", schema, 4096, patience=Patience(seconds=3600))
for part in folders.passes():           # 20261122/0900, 20261122/0905, ...
    for batch in part: ...
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework.data.faults import FaultPolicy
from framework.data.logs.faults import LogFaults
from framework.data.logs.reader import LogReader
from framework.data.logs.schema import LogSchema
from framework.data.logs.waiting import Patience
from framework.data.source import Endless
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, CheckpointError, DataError

_log = logging.getLogger(__name__)
_NAME = "%Y%m%d/%H%M"


class LogFolders(Endless):
    """Makes batches of folders that keep filling. It has what a `StreamLoader` has.

    Passes are read in the order of their names, each once and only when its done-file is there: a pass that is being
    written is waited for, and holds up later ones. Inside, a pass is a `LogReader` whose order is drawn from (seed,
    number of the pass). No batch goes over the end of a pass.

    Args:
        root: folder of the passes.
        schema, batch_size: see `LogReader`.
        levels: folders in folders that make a pass: 2 for `day/HHMM`.
        files: pattern of a pass's files; names that begin with "_" or "." are left out.
        done: the done-file, as seen from the pass's folder; `{name}` is that folder's name, as in "../{name}.done".
        begin, end: names of the first and last pass to be read, such as "20261122/0900"; None for any.
        every: minutes from one pass to the next. With it the next one is waited for, and no other is read before it.
            Without, a pass that appears after a later one was read is not read; the log says so, once.
        patience: how long the next pass is waited for.
        options: those of `LogReader`.

    Attributes:
        name: of the pass at hand, or of the last one; "" before the first.
        number: of the pass at hand, from 0.
        late: names of passes that came after a later one was read.

    Raises AttributeValueError for a wrong argument, and what a `LogReader` raises.
    """

    def __init__(
        self,
        root: str | Path,
        schema: LogSchema | dict[str, Any],
        batch_size: int,
        *,
        levels: int = 2,
        files: str = "*",
        done: str = "_SUCCESS",
        begin: str | None = None,
        end: str | None = None,
        every: int | None = None,
        patience: Patience = Patience(),  # noqa: B008  (frozen)
        faults: FaultPolicy = FaultPolicy(),  # noqa: B008  (frozen)
        **options: Any,
    ) -> None:
        if levels < 1 or (every is not None and (every < 1 or levels != 2)):
            raise AttributeValueError(
                f"LogFolders: levels is {levels} and every {every}; needed are 1 or more, and minutes of passes that "
                "are named day/HHMM"
            )
        self.root, self.patience, self.faults = Path(root), patience, faults
        self.schema = schema if isinstance(schema, LogSchema) else LogSchema(schema)
        self.batch_size, self.world, self.dataset = batch_size, ALONE, self
        self.wait_seconds = 0.0
        self.name, self.number, self.late = "", -1, list[str]()
        self._levels, self._pattern, self._done = levels, files, done
        self._begin, self._end, self._every, self._options = begin, end, every, options
        self._seen: list[str] = []  # passes of the last one's day
        self._reader: LogReader | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.stream()

    @property
    def skipped(self) -> LogFaults:
        """What could not be used in the pass at hand."""
        return LogFaults() if self._reader is None else self._reader.skipped

    @property
    def passes_over(self) -> int:
        """How many passes are over, those without files included."""
        inside = self._reader is not None and self._reader.epoch == self.number
        return self.number if inside else self.number + 1

    def stream(self) -> Iterator[dict[str, Any]]:
        """Batches of one pass after the other, until no next one comes."""
        for part in self.passes():
            before = part.wait_seconds
            for batch in part:
                self.wait_seconds += part.wait_seconds - before
                before = part.wait_seconds
                yield batch

    def passes(self) -> Iterator[LogReader]:
        """A reader a pass, from the position on; one that is left in the middle is continued by the next call."""
        if self._reader is not None and self._reader.epoch == self.number:
            yield self._reader
        while not self._at_end:
            name = self.patience.wait(self._next, self.what_is_next)
            if name is None:
                return
            self._go_on(name)
            self._reader = self.open(name, self.number)
            if self._reader is not None:
                yield self._reader

    def look(self) -> bool:
        """Go on to the next pass, if it is complete, without opening it; whether there is one."""
        name = None if self._at_end else self._next()
        if name is None:
            return False
        self._go_on(name)
        return True

    @property
    def what_is_next(self) -> str:
        """What is waited for, for a message."""
        return f"pass after {self.name or 'the beginning'}"

    @property
    def ended(self) -> bool:
        """Whether the last batch of the pass `end` was given: none follows."""
        return self._at_end and self.passes_over > self.number

    @property
    def _at_end(self) -> bool:
        return self._end is not None and self.name >= self._end

    def _go_on(self, name: str) -> None:
        day = self._day(name)
        self._seen = [n for n in self._seen if self._day(n) == day] + [name]
        self.name, self.number = name, self.number + 1
        self.close()
        self._reader = None

    def first_files(self) -> list[Path]:
        """The files of the first pass that has any, waited for; raise DataError where none comes."""
        name = self.patience.wait(self._next, f"pass in {self.root}")
        found = [] if name is None else self._files_of(name)
        if not found:
            raise DataError(f"{self.root}: no pass with files is complete; see `done` and `files`")
        return found

    def split(self, world: World) -> None:
        """From now on read the part of one of several processes, of each pass."""
        self.world = world
        if self._reader is not None:
            self._reader.split(world)

    def start(self) -> None:
        """Do nothing: a pass starts its threads."""

    def close(self) -> None:
        """Stop the threads of the pass at hand."""
        if self._reader is not None:
            self._reader.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position behind the last batch, fit for JSON."""
        reader = None if self._reader is None else self._reader.state_dict()
        return {
            **self._identity(),
            "pass": self.name,
            "number": self.number,
            "seen": list(self._seen),
            "reader": reader,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if this object makes other batches."""
        for key, mine in self._identity().items():
            if state.get(key) != mine:
                raise CheckpointError(f"LogFolders: the saved position has {key} {state.get(key)}, not {mine}")
        self.close()
        self.name, self.number, self._seen = state["pass"], state["number"], list(state["seen"])
        self._reader = None
        if state["reader"] is not None and state["reader"]["epoch"] == self.number:  # in the middle of a pass
            self._reader = self.open(self.name, self.number)
            if self._reader is None:
                raise CheckpointError(
                    f"{self.root / self.name}: the position lies in this pass, which has no files now"
                )
            self._reader.load_state_dict(state["reader"])

    def _identity(self) -> dict[str, Any]:
        return {"levels": self._levels, "pattern": self._pattern, "batch_size": self.batch_size}

    def _day(self, name: str) -> str:
        return name.rpartition("/")[0]

    def _files_of(self, name: str) -> list[Path]:
        found = sorted(p for p in (self.root / name).glob(self._pattern) if p.is_file() and p.name[0] not in "_.")
        return [path for path in found if path.resolve() != self._done_file(name).resolve()]

    def open(self, name: str, number: int, **options: Any) -> LogReader | None:
        """The reader of pass `name`, which has this number; None for one without files.

        `options` are those of `LogReader` that are to be others than this object's.
        """
        found = self._files_of(name)
        if not found:
            _log.warning("%s: this pass has no files", self.root / name)
            return None
        options = {"faults": self.faults, "world": self.world, **self._options, **options}
        reader = LogReader(found, self.schema, self.batch_size, **options)
        reader.epoch = number
        return reader

    def _done_file(self, name: str) -> Path:
        folder = self.root / name
        return folder / self._done.format(name=folder.name)

    def _next(self) -> str | None:
        """The next pass, if it is complete."""
        if self._every is not None and not self.name and self._begin:
            wanted = [self._begin]
        elif self._every is not None and self.name:
            try:
                then = datetime.datetime.strptime(self.name, _NAME)
            except ValueError:
                raise DataError(
                    f"{self.root / self.name}: a pass with `every` is named day/HHMM, as 20261122/0905"
                ) from None
            wanted = [(then + datetime.timedelta(minutes=self._every)).strftime(_NAME)]
        else:
            wanted = self._names()
            self._tell_late(wanted)
            wanted = [name for name in wanted if name > self.name and name >= (self._begin or "")]
        if not wanted or (self._end is not None and wanted[0] > self._end):
            return None
        return wanted[0] if self._done_file(wanted[0]).is_file() else None

    def _names(self) -> list[str]:
        found = self.root.glob("/".join("*" * self._levels))
        names = [p.relative_to(self.root).as_posix() for p in found if p.is_dir() and p.name[0] not in "_."]
        return sorted(names)

    def _tell_late(self, names: list[str]) -> None:
        for name in names:
            missed = self._begin is None or name >= self._begin
            same_day = self._seen and self._seen[0] <= name < self.name and self._day(name) == self._day(self.name)
            if missed and same_day and name not in self._seen and name not in self.late:
                self.late.append(name)
                _log.warning("%s: it came after a later pass was read, so it is not read", self.root / name)
