"""A wall clock that jumps, for tests: `time.time` and what is made of it in this process."""

from __future__ import annotations

import time
from typing import Any

HOURS = 3600.0


class Jumping:
    """The wall clock, set forwards and back.

    Attributes:
        offset: seconds by which it is wrong.
    """

    def __init__(self, patch: Any) -> None:
        self.offset = 0.0
        seconds, nanoseconds = time.time, time.time_ns
        patch.setattr(time, "time", lambda: seconds() + self.offset)
        patch.setattr(time, "time_ns", lambda: nanoseconds() + int(self.offset * 1e9))
