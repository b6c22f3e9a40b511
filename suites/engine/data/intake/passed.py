"""PassedOver: what lies among the data of a set and is not read, counted by reason and named."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice

from suites.engine.data.intake.naming import shown

_log = logging.getLogger(__name__)
_NAMED = 3  # names a reason in a message


class PassedOver:
    """Counts names by reason and keeps the first few of each.

    >>> passed = PassedOver()
    >>> passed.note("hidden", ".DS_Store"); passed.note("hidden", ".git")
    >>> str(passed)
    '2 hidden (.DS_Store, .git)'
    """

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._every: dict[str, set[str]] = {}

    def note(self, reason: str, *names: str) -> None:
        """Counts names, each once for a reason; that is a few words that go on behind a number, such as "hidden"."""
        every, kept = self._every.setdefault(reason, set()), self._names.setdefault(reason, [])
        new = (shown(name) for name in dict.fromkeys(names) if name not in every)
        kept += islice(new, _NAMED - len(kept))
        every.update(names)

    def __len__(self) -> int:
        return sum(map(len, self._every.values()))

    def __iter__(self) -> Iterator[tuple[str, int, list[str]]]:
        """(reason, how many, the first names)."""
        for reason, every in self._every.items():
            yield reason, len(every), self._names[reason]

    def __str__(self) -> str:
        return "; ".join(
            f"{count} {reason} ({', '.join(names)}{', ...' if count > len(names) else ''})"
            for reason, count, names in self
        )

    def say(self, what: str) -> None:
        """Logs what was passed over in the set `what`, if anything was."""
        if len(self):
            _log.info("%s: not read: %s", what, self)
