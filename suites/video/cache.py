"""Decoded frames that are kept for the next time they are wanted, within a budget of bytes; the oldest go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from framework.errors import AttributeValueError
from suites.video.timeline import Timeline

_MOST_MEGABYTES = 1 << 20
_TIMES = -1  # in place of a frame's number: the video's timeline


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class FrameCache:
    """Frames of videos by number. A copy, as each worker process gets one, begins empty.

    Args:
        megabytes: what all that is kept may have, in units of 2^20 bytes; 0 keeps nothing.
    """

    def __init__(self, megabytes: int = 0) -> None:
        if not 0 <= megabytes <= _MOST_MEGABYTES:
            raise AttributeValueError(f"cache_mb is {megabytes}; it must be a number from 0 to {_MOST_MEGABYTES}")
        self._megabytes = megabytes
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self.bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"megabytes": self._megabytes}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def timeline(self, video: int) -> Timeline | None:
        """The kept timeline of a video."""
        found: Timeline | None = self._find(video, _TIMES)
        return found

    def frames(self, video: int, wanted: Iterable[int]) -> dict[int, np.ndarray]:
        """Those of the wanted frames of a video that are kept, by number; never to be written to."""
        found = {i: self._find(video, i) for i in set(wanted)}
        return {i: frame for i, frame in found.items() if frame is not None}

    def keep(self, video: int, frames: Mapping[int, np.ndarray], timeline: Timeline | None = None) -> None:
        """Takes in what was read of a video; what was not wanted for longest makes room."""
        for i, frame in frames.items():
            self._keep((video, i), frame)
        if timeline is not None:
            self._keep((video, _TIMES), timeline)

    def _find(self, video: int, i: int) -> Any:
        found = self._kept.get((video, i))
        if found is not None:
            self._kept.move_to_end((video, i))
        return found

    def _keep(self, place: tuple[int, int], what: _Sized) -> None:
        limit = self._megabytes << 20
        if place in self._kept or what.nbytes > limit:
            return
        self._kept[place] = what
        self.bytes += what.nbytes
        while self.bytes > limit:
            self.bytes -= self._kept.popitem(last=False)[1].nbytes
