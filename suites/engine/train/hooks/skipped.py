"""SkippedSamples: says which training samples could not be used, in the log at once and on the screen at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from framework.data import Source
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class SkippedSamples(Hook):
    """Watches the training set's loader."""

    priority: ClassVar[int] = 70

    def __init__(self, loader: Source) -> None:
        self._loader = loader
        self._told = 0

    def before_train(self, loop: TrainingLoop) -> None:
        """What was skipped before the run was resumed is in its log already."""
        self._told = len(self._loader.skipped)

    def after_step(self, loop: TrainingLoop) -> None:
        """Keep a line in the log where there are more than before."""
        if len(self._loader.skipped) > self._told:
            self._told = len(self._loader.skipped)
            loop.log.keep(f"training: {self._loader.skipped.report()}")

    def after_train(self, loop: TrainingLoop) -> None:
        """Say how many there were."""
        if self._told:
            loop.log.say(f"training: {self._loader.skipped.report()}")
