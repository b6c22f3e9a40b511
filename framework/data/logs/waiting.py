"""Patience: waiting for what other programs write, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from framework.errors import AttributeValueError, DataError

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How long a stream waits for more.

    Args:
        seconds: of waiting without anything new; 0 takes what is there.
        poll: seconds between two looks.
        then: "stop": the stream ends, and may be iterated again later; "error": DataError.

    Raises AttributeValueError for a negative time.
    """

    seconds: float = 0.0
    poll: float = 1.0
    then: Literal["stop", "error"] = "stop"

    def __post_init__(self) -> None:
        if not self.seconds >= 0 or not self.poll > 0 or self.then not in ("stop", "error"):
            raise AttributeValueError(
                f"Patience: seconds is {self.seconds}, poll {self.poll} and then {self.then!r}; needed are times of 0 "
                "or more, above 0, and 'stop' or 'error'"
            )

    def wait(self, look: Callable[[], T | None], what: str) -> T | None:
        """What `look` finds, looked for again and again; None where the time is over and the stream ends."""
        deadline = time.monotonic() + self.seconds
        while (found := look()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                self.give_up(what)
                return None
            time.sleep(min(self.poll, left))
        return found

    def give_up(self, what: str) -> None:
        """The time is over: raise DataError, unless the stream just ends."""
        if self.then == "error":
            raise DataError(f"log reader: no {what} in {self.seconds:g} s; see whether its writer still runs")
