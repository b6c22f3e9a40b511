"""Journal: every figure of a run, as lines of `metrics.jsonl`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites.engine.reporting.lines import append, withdraw
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

FILE = "metrics.jsonl"


class Journal(Hook):
    """Writes a line every `every` steps and one of each evaluation.

    A line has `step` and `epoch`, and either `loss`, `losses` by term, `scalars`, `lr`, `seconds` and `wait` of the
    step (the part of it spent waiting for data), or `figures` of an evaluation. What is no number is null.
    """

    priority: ClassVar[int] = 60

    def __init__(self, folder: Path, *, every: int = 20) -> None:
        self._path, self._every = folder / FILE, every

    def before_train(self, loop: TrainingLoop) -> None:
        """Withdraw what a killed run wrote beyond its checkpoint."""
        if loop.world.first:
            withdraw(self._path, loop.step)

    def after_step(self, loop: TrainingLoop) -> None:
        """Write the step's line, if it is time."""
        if loop.step % self._every and loop.step != loop.total_steps:
            return
        losses = dict(loop.losses)
        scalars = dict(loop.update.scalars) if loop.update is not None else {}
        line = {"loss": sum(losses.values()), "losses": losses, "scalars": scalars, "lr": loop.lr}
        self._write(loop, line | {"seconds": loop.step_seconds, "wait": loop.wait_seconds})

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Write the evaluation's line."""
        self._write(loop, {"figures": dict(metrics)})

    def _write(self, loop: TrainingLoop, line: dict[str, Any]) -> None:
        if loop.world.first:
            append(self._path, _finite({"step": loop.step, "epoch": loop.epoch, **line}))


def _finite(value: Any) -> Any:
    """Plain numbers, null for those that are none: JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
