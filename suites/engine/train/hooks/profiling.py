"""Profiling: records a few training steps; what it shows and writes is StepProfile's."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from suites.engine.train.loop import Hook
from suites.engine.train.profiling import StepProfile

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class Profiling(Hook):
    """Stands around the training step itself: reading data and the other hooks are not in the profile."""

    priority: ClassVar[int] = 0

    def __init__(self, profile: StepProfile) -> None:
        self._profile = profile
        self._step = contextlib.ExitStack()

    def before_step(self, loop: TrainingLoop) -> None:
        """Record from here."""
        self._step.enter_context(self._profile.step())

    def after_step(self, loop: TrainingLoop) -> None:
        """Record to here."""
        self._step.close()

    def after_train(self, loop: TrainingLoop) -> None:
        """Report what there is, if the run was shorter than the profile."""
        self._profile.report()

    def close(self, loop: TrainingLoop) -> None:
        """Stop recording, also after an error inside the step."""
        self._step.close()
