"""Counting: what the training set held, counted in the batches of the steps that are logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from framework.data import Source
from suites.engine.contract.capabilities import count_batch, count_set
from suites.engine.reporting.tally import TRAIN, Tally, add_skipped, write_tally
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class Counting(Hook):
    """Counts every `every` steps, so that a large set costs no time, and writes `data.json` at evaluations and the end.

    What the data set knows by itself is counted as a whole; see `CountsSets`.

    Args:
        loader: of the training set.
        every: steps.
    """

    priority: ClassVar[int] = 80  # before the page is written

    def __init__(self, loader: Source, *, every: int = 20) -> None:
        self._loader, self._every = loader, every
        self._read = Tally()

    def after_step(self, loop: TrainingLoop) -> None:
        """Look at the step's batches, if it is time."""
        if loop.step % self._every == 0 or loop.step == 1:
            for batch in loop.batches:
                count_batch(loop.task, self._read, batch, training=True)

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Write what is known by now."""
        self._write(loop)

    def after_train(self, loop: TrainingLoop) -> None:
        """Write what is known at the end."""
        self._write(loop)

    def state_dict(self) -> dict[str, Any]:
        """What was counted in batches."""
        return {"read": self._read.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what was counted."""
        self._read = Tally()
        self._read.merge(state["read"])

    def _write(self, loop: TrainingLoop) -> None:
        if loop.folder is None or not loop.world.first:
            return
        tally = Tally()
        count_set(loop.task, tally, self._loader.dataset, training=True)
        tally.merge(self._read.state())
        add_skipped(tally, self._loader)
        write_tally(loop.folder, TRAIN, tally)
