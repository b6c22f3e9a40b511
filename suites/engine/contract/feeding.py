"""What is renewed while a model is served: files beside it that make its inputs, or the model itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from framework.errors import PaddockError

if TYPE_CHECKING:
    from framework.predictor import Predictor


@dataclass(frozen=True)
class Fed:
    """A batch as a Program takes it.

    Attributes:
        arrays: the Program's inputs by name.
        version: of what made them, and of the network.
        network: that goes with them; None for that of the export.
        beside: what the processor makes results with, such as the items of this version.
    """

    arrays: Mapping[str, np.ndarray]
    version: str
    network: Predictor | None = None
    beside: Any = None


class Counter(NamedTuple):
    """Of a server: what it counts, and how often that came."""

    help: str
    value: float


class Feed(Protocol):
    """Makes a Program's inputs of a batch's arrays, by files beside the export, from any thread."""

    @property
    def version(self) -> str:
        """Of what answers now."""

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> Fed:
        """The batch as the Program takes it."""

    def counters(self) -> Mapping[str, Counter]:
        """Figures for a server's metrics by name."""


class Outputs(dict[str, np.ndarray]):
    """Arrays by name.

    Attributes:
        version: of what gave them; None for a model that has one only.
        beside: see `Fed`.
    """

    version: str | None = None
    beside: Any = None


Held = TypeVar("Held")


class Newest(Generic[Held]):
    """What answers now, and how something newer takes its place: made beside it, then taken up at once.

    Args:
        now: what answers first.
        make: what is newer than what it is given; None where nothing is. Its PaddockError leaves what answers in place.
        told: what is said of one that was taken up, with None, or of one that stays, with the error.
        every: seconds between two looks.

    Attributes:
        now: what answers; whoever reads it once sees one version.
        taken_up: how often something newer took its place.
        every, due: seconds between looks, and the time of the next by the monotonic clock.
    """

    def __init__(
        self,
        now: Held,
        make: Callable[[Held], Held | None],
        told: Callable[[Held, PaddockError | None], None],
        every: float = 1.0,
    ) -> None:
        self.now, self.taken_up = now, 0
        self._make, self._told, self.every = make, told, every
        self._one, self.due = threading.Lock(), time.monotonic() + every

    def look(self) -> None:
        """Take up what is newer, if it is time and no other thread does; from any thread."""
        if time.monotonic() < self.due or not self._one.acquire(blocking=False):
            return
        try:
            self.due = time.monotonic() + self.every
            self._take_up(self._make)
        except PaddockError as error:
            self._told(self.now, error)
        finally:
            self._one.release()

    def take_up(self, make: Callable[[Held], Held | None]) -> bool:
        """Take up what `make` gives, after what another thread is taking up; return whether there was something.

        Raises its PaddockError, which is told too.
        """
        with self._one:
            try:
                return self._take_up(make)
            except PaddockError as error:
                self._told(self.now, error)
                raise

    def _take_up(self, make: Callable[[Held], Held | None]) -> bool:
        newer = make(self.now)
        if newer is None:
            return False
        self.now = newer
        self.taken_up += 1
        self._told(newer, None)
        return True
