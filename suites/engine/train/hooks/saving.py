"""Saving: a checkpoint every n steps, after each evaluation, at the end and on Ctrl-C."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from framework.errors import NumericsError
from suites.engine.config.settings import CheckpointSettings
from suites.engine.contract.resources import resources_of, save_deployed
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.hooks.interval import Interval
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class Saving(Hook):
    """Runs last at each step, so that a checkpoint holds what the other hooks did."""

    priority: ClassVar[int] = 90

    def __init__(self, folder: Path, settings: CheckpointSettings) -> None:
        self._folder = folder
        self._interval = Interval(settings.every, settings.unit)
        self._checkpoints = Checkpoints(folder, keep=settings.keep)
        self._saved_at = -1
        self._due = False

    def before_train(self, loop: TrainingLoop) -> None:
        """Know what is saved already."""
        self._saved_at = max(self._checkpoints.steps(), default=-1)

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Save at this step."""
        self._due = True

    def after_step(self, loop: TrainingLoop) -> None:
        """Save if it is time."""
        if self._interval.due(loop) or self._due:
            self._save(loop)

    def after_train(self, loop: TrainingLoop) -> None:
        """Save the last step."""
        if self._saved_at != loop.step or self._due:
            self._save(loop)

    def after_failure(self, loop: TrainingLoop) -> None:
        """Save what was trained before the error; NanGuard looks at it first."""
        if loop.step > 0 and self._saved_at != loop.step:
            self._save(loop)
            loop.log.say(f"what was trained is saved, at step {loop.step}")

    def _save(self, loop: TrainingLoop) -> None:
        loop.call("before_keeping")
        weights = loop.deploy_weights()
        for name, tensor in weights.items():
            if tensor.dtype.startswith("float") and not np.isfinite(tensor.numpy()).all():
                raise NumericsError(
                    f"train: weight '{name}' has values that are NaN or infinite at step {loop.step}, so it is "
                    "not saved; checkpoints before it are intact; lower schedule.base_lr or set runtime.clip_norm"
                )
        self._saved_at, self._due = loop.step, False
        if not loop.world.first:
            return
        # In this order: a run killed in between resumes at an earlier step and comes here again.
        resources = resources_of(loop.task)
        save_deployed(self._folder / "last.safetensors", weights, resources)
        self._checkpoints.save(loop.step, loop.state_dict(), resources)
