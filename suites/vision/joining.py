"""What data sets share that are made of several others: which part a sample belongs to, and one list of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from framework.errors import ConfigError
from suites.engine.reporting import Tally


class Joinable(Protocol):
    """What is asked of a data set that is joined to others."""

    class_names: tuple[str, ...]

    def __len__(self) -> int: ...

    def name_of(self, index: int) -> str:
        """The file, or other name, of sample `index` for messages."""
        ...

    def skipped(self) -> Tally:
        """Samples that cannot be used and were left out when the set was opened, and why."""
        ...


PartType = TypeVar("PartType", bound=Joinable)


class Joining(Generic[PartType]):
    """Data sets one behind the other. A suite's `Joined` derives from it and from the base of its data sets.

    Attributes:
        parts: the data sets.
        part_sizes: int64, the samples of each.
        class_names: the names that all of them have.

    Args:
        parts: the data sets, one or more, with the same classes in the same order.

    Raises:
        ConfigError: there are none, or they have different classes.
    """

    def __init__(self, parts: Sequence[PartType]) -> None:
        if not parts:
            raise ConfigError("Joined: parts is empty; name at least one data set")
        self.parts = tuple(parts)
        self.class_names = parts[0].class_names
        for number, part in enumerate(parts):
            if part.class_names != self.class_names:
                raise ConfigError(
                    f"Joined: part {number} has the classes {_shown(part.class_names)} but part 0 has "
                    f"{_shown(self.class_names)}; give all parts the same `classes`, in one order"
                )
        self.part_sizes = np.array([len(part) for part in parts], np.int64)
        self._ends = np.cumsum(self.part_sizes)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def name_of(self, index: int) -> str:
        """What its own data set calls sample `index`."""
        part, place = self.place_of(index)
        return part.name_of(place)

    def skipped(self) -> Tally:
        """Samples of all parts that cannot be used and were left out when they were opened, and why."""
        found = Tally()
        for part in self.parts:
            found.merge(part.skipped().state())
        return found

    def place_of(self, index: int) -> tuple[PartType, int]:
        """The data set of sample `index`, and its number there; IndexError beyond the last."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        index %= count
        number = int(np.searchsorted(self._ends, index, side="right"))
        return self.parts[number], index - int(self._ends[number] - self.part_sizes[number])


def _shown(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
