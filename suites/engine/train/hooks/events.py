"""Events: losses, learning rate, times and figures as TensorBoard event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from framework.atomic import make_folder
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class Events(Hook):
    """Writes one point every `every` steps, and all figures of each evaluation."""

    priority: ClassVar[int] = 60

    def __init__(self, folder: Path, *, every: int = 20) -> None:
        self._folder = folder
        self._every = every
        self._writer: Any = None

    def before_train(self, loop: TrainingLoop) -> None:
        """Open a file; points that a killed run wrote beyond the checkpoint are withdrawn."""
        if not loop.world.first:
            return
        from tensorboardX import SummaryWriter

        make_folder(self._folder)
        self._writer = SummaryWriter(str(self._folder), purge_step=loop.step + 1)

    def after_step(self, loop: TrainingLoop) -> None:
        """Write the step's scalars."""
        if loop.step % self._every or self._writer is None:
            return
        for name, value in loop.losses.items():
            self._add(f"loss/{name}", value, loop)
        for name, value in loop.update.scalars.items() if loop.update else ():
            self._add(f"scalars/{name}", value, loop)
        self._add("loss", sum(loop.losses.values()), loop)
        self._add("learning_rate", loop.lr, loop)
        if loop.scaler is not None:
            self._add("loss_scale", loop.scaler.scale.item(), loop)
            self._add("skipped_updates", loop.scaler.skipped.item(), loop)
        self._add("seconds/step", loop.step_seconds, loop)
        self._add("seconds/data_wait", loop.wait_seconds, loop)

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Write the figures."""
        if self._writer is None:
            return
        for name, value in metrics.items():
            self._add(f"metrics/{name}", value, loop)
        self._writer.flush()

    def close(self, loop: TrainingLoop) -> None:
        """Write out what is buffered."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, name: str, value: float, loop: TrainingLoop) -> None:
        self._writer.add_scalar(name, value, loop.step)
