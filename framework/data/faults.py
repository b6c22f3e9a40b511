"""FaultPolicy: what a DataLoader does about samples that it cannot use, and the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from framework.errors import AttributeValueError, DataError

_FLOOR, _LARGEST_SHARE = 2, 0.125  # samples of a small set that may be unusable where a share of it is less than one
_SHOWN = 8  # samples in a message
_MAX_REASON = 500  # characters kept of why a sample cannot be used


@dataclass(frozen=True)
class FaultPolicy:
    """What a loader does about samples that it cannot use, and how many it bears.

    Args:
        skipped: share of the data set's samples that may be unusable. A sample is unusable where it raises DataError
            or OSError. Of a small set, two may be, and an eighth at most. 0: the first one ends the pass.
        instead: what takes the place of an unusable sample. "another": the next usable one of the data set, so that
            batches keep their size; "nothing": the batch is smaller, and left out where nothing remains.
        seconds: how long a worker may take for one sample; 0 for any time. Without workers nothing is measured.
        hung: what happens to a sample that takes longer. "skip": the worker is replaced and the sample is unusable;
            "end": WorkerError.

    Raises AttributeValueError for a share outside [0, 1] or a negative time.
    """

    skipped: float = 0.0
    instead: Literal["another", "nothing"] = "another"
    seconds: float = 0.0
    hung: Literal["skip", "end"] = "skip"

    def borne(self, size: int) -> int:
        """How many of `size` samples may be unusable."""
        if not self.skipped:
            return 0
        return max(int(self.skipped * size), min(_FLOOR, int(_LARGEST_SHARE * size)))

    def __post_init__(self) -> None:
        if not 0 <= self.skipped <= 1 or not self.seconds >= 0:
            raise AttributeValueError(
                f"FaultPolicy: skipped is {self.skipped} and seconds {self.seconds}; needed is a share in [0, 1] and "
                "a time of 0 or more"
            )


class Skipped:
    """The samples of one loader that could not be used, by index, with the reasons.

    Args:
        size: samples of the data set.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._reasons: dict[int, str] = {}
        self._hung: set[int] = set()

    def __len__(self) -> int:
        return len(self._reasons)

    @property
    def indices(self) -> list[int]:
        """Indices of the samples, ascending."""
        return sorted(self._reasons)

    @property
    def hung(self) -> frozenset[int]:
        """Those that made a worker hang; they are not tried again."""
        return frozenset(self._hung)

    def add(self, found: Mapping[int, str], faults: FaultPolicy) -> None:
        """Take in samples with their reasons; raise DataError where there are too many of them."""
        for index, reason in found.items():
            self._reasons.setdefault(index, reason[:_MAX_REASON])
        if found and len(self._reasons) > faults.borne(self._size):
            raise DataError(self._too_many(faults))

    def add_hung(self, index: int) -> None:
        """Remember a sample that made a worker hang."""
        self._hung.add(index)

    def forget(self) -> None:
        """Start anew, for another pass; samples that made a worker hang stay."""
        self._reasons = {index: reason for index, reason in self._reasons.items() if index in self._hung}

    def reasons(self) -> dict[int, str]:
        """Why each of them could not be used, in one line, by index."""
        return {index: _one_line(self._reasons[index]) for index in self.indices}

    def report(self) -> str:
        """One line: how many, and the first with their reasons; empty where there are none."""
        if not self._reasons:
            return ""
        return f"{len(self)} of {self._size} samples could not be used: {self._first()}"

    def state_dict(self) -> dict[str, Any]:
        """Return what was found so far, fit for JSON."""
        return {"reasons": [[i, self._reasons[i]] for i in self.indices], "hung": sorted(self._hung)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        self._reasons = {int(index): str(reason) for index, reason in state["reasons"]}
        self._hung = set(state["hung"])

    def _first(self) -> str:
        more = f"; and {len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return "; ".join(_one_line(self._reasons[i]) for i in self.indices[:_SHOWN]) + more

    def _too_many(self, faults: FaultPolicy) -> str:
        if len(self) == 1:
            return f"DataLoader: {next(iter(self._reasons.values()))}"
        return (
            f"DataLoader: {self.report()}; at most {faults.skipped:.3g} of the samples may be skipped: "
            "repair the data, or allow more"
        )


def _one_line(text: str) -> str:
    return text.split("\n", 1)[0]
