"""Interval: every so many steps, epochs or minutes. TimeLimit: ends a run after some minutes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class Interval:
    """Says after which steps something is due.

    Args:
        every: how many units lie between two times; 0 for never.
        unit: "steps" and "epochs" are those of the run, "percent" are those of its updates. "minutes" are those since
            this process last said yes, so they do not fall on the same steps again in a run that is resumed or
            repeated.
    """

    def __init__(self, every: int, unit: Literal["steps", "epochs", "minutes", "percent"]) -> None:
        self._every, self._unit = every, unit
        self._since = time.monotonic()

    def due(self, loop: TrainingLoop) -> bool:
        """Whether it is due after the last step."""
        if self._every == 0:
            return False
        if self._unit == "steps":
            return loop.step % self._every == 0
        if self._unit == "epochs":
            return loop.epoch_ended and (loop.step // loop.steps_per_epoch) % self._every == 0
        if self._unit == "percent":
            parts = [100 * step // (self._every * loop.total_steps) for step in (loop.step - 1, loop.step)]
            return parts[0] < parts[1]
        now = time.monotonic()
        if now - self._since < self._every * 60:
            return False
        self._since = now
        return True


class TimeLimit(Hook):
    """Ends the run once it has taken so many minutes, evaluations and earlier parts of a resumed run included.

    Args:
        minutes: how many.
    """

    priority: ClassVar[int] = 30  # before the evaluation, so that the last weights are evaluated

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self._before = 0.0
        self._started = time.monotonic()

    def before_train(self, loop: TrainingLoop) -> None:
        """Start counting."""
        self._started = time.monotonic()

    def after_step(self, loop: TrainingLoop) -> None:
        """Stop if it is time."""
        if self._seconds() >= self._minutes * 60 and not loop.ending:
            loop.stop(f"runtime.minutes, {self._minutes:g}, are over")

    def state_dict(self) -> dict[str, Any]:
        """The seconds so far."""
        return {"seconds": self._seconds()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on counting."""
        self._before = state["seconds"]

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._started
