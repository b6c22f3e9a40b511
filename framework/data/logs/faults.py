"""LogFaults: rows and files of a log that could not be used, counted by kind, the first with file and line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from framework.data.faults import FaultPolicy
from framework.errors import DataError


class LogFaults:
    """What could not be used so far.

    Args:
        shown: bad rows whose file and line are kept; the others are counted.
        bad_files: how many files may be unreadable; one more is an error.

    Attributes:
        rows: usable rows.
        kinds: bad rows by kind; "backwards" counts rows whose time is before an earlier row's, which are used.
        files: files that could not be read to their end, with the reason.
        messages: the first bad rows: "file:line: reason".
        first_backwards: file and line of the first row whose time runs backwards; "" where there is none.
    """

    def __init__(self, shown: int = 20, bad_files: int = 0) -> None:
        self.shown, self.bad_files = shown, bad_files
        self.rows = 0
        self.kinds: Counter[str] = Counter()
        self.files: dict[str, str] = {}
        self.messages: list[str] = []
        self.first_backwards = ""

    def __len__(self) -> int:
        return self.bad_rows + len(self.files)

    @property
    def bad_rows(self) -> int:
        """Rows that were left out."""
        return sum(count for kind, count in self.kinds.items() if kind != "backwards")

    @property
    def indices(self) -> list[int]:
        """Always empty: rows of a log have no numbers. `Skipped` has them."""
        return []

    def add(self, rows: int, kinds: Mapping[str, int], messages: Sequence[str], faults: FaultPolicy) -> None:
        """Take in what parsing a block gave; raise DataError where too large a share of all rows is bad."""
        self.rows += rows
        self.kinds.update(kinds)
        self.messages += messages[: max(0, self.shown - len(self.messages))]
        bad = self.bad_rows
        if sum(kinds.values()) > kinds.get("backwards", 0) and bad > faults.skipped * (self.rows + bad):
            raise DataError(
                f"log reader: {self.report()}; at most {faults.skipped:.3g} of the rows may be bad: repair the data or "
                "the schema, or allow more"
            )

    def add_file(self, name: str, reason: str) -> None:
        """Take in a file that could not be read; raise DataError where there are too many."""
        self.files.setdefault(name, reason)
        if len(self.files) > self.bad_files:
            raise DataError(f"log reader: {reason}" if not self.bad_files else f"log reader: {self.report()}")

    def reasons(self) -> dict[str, str]:
        """Why files, and the first bad rows, could not be used, by file, or file and line."""
        rows = (message.partition(": ") for message in self.messages)
        return self.files | {where: why for where, _, why in rows}

    def forget(self) -> None:
        """Start anew, for another pass."""
        self.__init__(self.shown, self.bad_files)  # type: ignore[misc]

    def report(self) -> str:
        """One line: how many of each kind, and the first with file and line; empty where there are none."""
        parts = []
        if self.bad_rows:
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.kinds.items()) if kind != "backwards")
            parts.append(f"{self.bad_rows} of {self.rows + self.bad_rows} rows could not be used ({kinds})")
        if self.kinds["backwards"]:
            count = self.kinds["backwards"]
            parts.append(f"the time of {count} rows is before an earlier row's, first at {self.first_backwards}")
        if self.files:
            parts.append(f"{len(self.files)} files could not be read: " + "; ".join(self.files.values()))
        return "; ".join([*parts, *self.messages[:8]])

    def state_dict(self) -> dict[str, Any]:
        """Return what was found so far, fit for JSON."""
        return {
            "rows": self.rows,
            "kinds": dict(self.kinds),
            "files": dict(self.files),
            "messages": list(self.messages),
            "first_backwards": self.first_backwards,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        self.rows, self.kinds = int(state["rows"]), Counter(state["kinds"])
        self.files, self.messages = dict(state["files"]), list(state["messages"])
        self.first_backwards = state.get("first_backwards", "")
