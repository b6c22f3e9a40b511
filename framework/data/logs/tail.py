"""LogTail: batches of one plain file that grows. Only whole rows are read, so a row may be written in parts."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework import _core
from framework.data.faults import FaultPolicy
from framework.data.logs.faults import LogFaults
from framework.data.logs.files import LogFile, Parsed, tell
from framework.data.logs.schema import LogSchema
from framework.data.logs.waiting import Patience
from framework.data.logs.window import RowWindow, gather
from framework.data.source import Endless
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, CheckpointError, DataError
from framework.limits import current


class LogTail(Endless):
    """Makes batches of a file that another program appends to. It has what a `StreamLoader` has.

    A batch is given when all its rows are there, so batches depend on the file alone and not on when it was looked at.
    Rows that make no whole batch when the waiting ends are left for the next iterator, or for a restart.

    Args:
        path: the file, not compressed; it may not exist yet.
        schema, batch_size, block_bytes, faults, shown: see `LogReader`.
        patience: how long more is waited for.

    Raises DataError where the file becomes shorter: it was replaced.
    """

    def __init__(
        self,
        path: str | Path,
        schema: LogSchema | dict[str, Any],
        batch_size: int,
        *,
        patience: Patience = Patience(),  # noqa: B008  (frozen)
        block_bytes: int = 1 << 20,
        faults: FaultPolicy = FaultPolicy(),  # noqa: B008  (frozen)
        shown: int = 20,
    ) -> None:
        if batch_size < 1 or block_bytes < 1:
            raise AttributeValueError(
                f"LogTail: batch_size is {batch_size} and block_bytes {block_bytes}; they must be 1 or more"
            )
        self.path, self.patience, self.faults = Path(path), patience, faults
        self.schema = schema if isinstance(schema, LogSchema) else LogSchema(schema)
        if self.schema.kind == "parquet":
            raise AttributeValueError("LogTail: a Parquet file is complete or none; use LogReader or LogFolders")
        self.batch_size, self.world, self.dataset = batch_size, ALONE, self
        self.skipped = LogFaults(shown)
        self.wait_seconds = 0.0
        self._block = block_bytes
        self._file: LogFile | None = None
        # Byte and number of the next line that is not parsed, and whether it is the rest of one that is too long.
        self._at, self._line, self._skipping = -1, 1, False
        self._windows: deque[RowWindow] = deque()
        self._taken = 0  # rows of the first window that were given out

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.stream()

    def stream(self) -> Iterator[dict[str, Any]]:
        """Batches from the position on, until no more rows come."""
        while True:
            while sum(window.rows for window in self._windows) - self._taken < self.batch_size:
                if self.patience.wait(self._grow, f"more of {self.path}") is None:
                    return
            yield self._batch()

    def split(self, world: World) -> None:
        """Raise AttributeValueError for more than one process: nobody knows how the file will be cut."""
        if world.size > 1:
            raise AttributeValueError("LogTail: one file that grows is read by one process; give each its own")

    def start(self) -> None:
        """Do nothing: there are no threads."""

    def close(self) -> None:
        """Do nothing: there are no threads."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position behind the last batch, fit for JSON."""
        here = self._windows[0].position if self._windows else self._here()
        return {**self._identity(), **here, "taken": self._taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if this object makes other batches."""
        for key, mine in self._identity().items():
            if state.get(key) != mine:
                raise CheckpointError(f"LogTail: the saved position has {key} {state.get(key)}, not {mine}")
        self._at, self._line, self._skipping = state["byte"], state["line"], state["skipping"]
        self._taken = state["taken"]
        self.skipped.load_state_dict(state["faults"])
        self._windows.clear()

    def _identity(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "schema": self.schema.digest}

    def _here(self) -> dict[str, Any]:
        faults = self.skipped.state_dict()
        return {"byte": self._at, "line": self._line, "skipping": self._skipping, "faults": faults}

    def _batch(self) -> dict[str, Any]:
        parts, need = [], self.batch_size
        while need:
            window = self._windows[0]
            if self._taken >= window.rows:
                self._taken -= window.rows
                self._windows.popleft()
                continue
            part = min(need, window.rows - self._taken)
            parts.append((window, self._taken, self._taken + part))
            self._taken, need = self._taken + part, need - part
        return self.schema.batch(gather(parts))

    def _grow(self) -> bool | None:
        """Parse the next whole lines; None where there are none yet."""
        if self._file is None and not self._open():
            return None
        file = self._file
        assert file is not None
        try:
            data = self._read()
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read any more ({error.strerror or error})") from None
        end = file.whole(data)
        if self._skipping:
            end = data.find(b"\n") + 1
            self._at, self._skipping = self._at + (end or len(data)), not end
            return True if data else None
        too_long = not end and len(data) > current().line_bytes
        if not end and not too_long:
            return None
        end = end or len(data)
        position = self._here()
        rows = _core.parse_log(file.native, data, 0, end)
        tell(self.skipped, self.faults, file, Parsed(rows, self._at, self._line))
        self._at, self._line, self._skipping = self._at + end, self._line + rows.lines, too_long
        if rows.count:
            self._windows.append(RowWindow.of([rows], position, False, (None, 0, 0)))
        return True

    def _read(self) -> bytes:
        assert self._file is not None
        with open(self.path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._at:
                raise DataError(
                    f"{self.path}: it has {size} bytes, and {self._at} were read: it was replaced or cut. Begin anew "
                    "without the saved position"
                )
            file.seek(self._at)
            data = file.read(self._block)
            while not self._file.whole(data) and len(data) <= current().line_bytes and (more := file.read(self._block)):
                data += more
        return data

    def _open(self) -> bool:
        """Whether the file is there, with its header if it has one."""
        if not self.path.is_file():
            return False
        if self.schema.fields["header"]:
            with open(self.path, "rb") as file:
                if not file.readline(current().line_bytes + 1).endswith(b"\n"):
                    return False
        self._file = LogFile(self.path, self.schema, self._block)
        if self._file.compressed:
            raise AttributeValueError(f"{self.path}: a compressed file that grows cannot be followed; use LogFolders")
        if self._at < 0:
            self._at, self._line = self._file.first_byte, self._file.first_line
        return True
