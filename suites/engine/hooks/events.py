"""Events: losses, learning rate, times and figures as TensorBoard event files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites.engine.hooks.base import Hook

if TYPE_CHECKING:
    from suites.engine.trainer import Trainer


class Events(Hook):
    """Writes one point every `every` steps, and all figures of each evaluation."""

    priority: ClassVar[int] = 60

    def __init__(self, folder: Path, *, every: int = 20) -> None:
        self._folder = folder
        self._every = every
        self._writer: Any = None

    def before_train(self, trainer: Trainer) -> None:
        """Open a file; points that a killed run wrote beyond the checkpoint are withdrawn."""
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(self._folder), purge_step=trainer.step + 1)

    def after_step(self, trainer: Trainer) -> None:
        """Write the step's scalars."""
        if trainer.step % self._every:
            return
        for name, value in trainer.losses.items():
            self._add(f"loss/{name}", value, trainer)
        self._add("loss", sum(trainer.losses.values()), trainer)
        self._add("learning_rate", trainer.lr, trainer)
        if trainer.scaler is not None:
            self._add("loss_scale", trainer.scaler.scale.item(), trainer)
            self._add("skipped_updates", trainer.scaler.skipped.item(), trainer)
        self._add("seconds/step", trainer.step_seconds, trainer)
        self._add("seconds/data_wait", trainer.wait_seconds, trainer)

    def after_evaluation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        """Write the figures."""
        for name, value in metrics.items():
            self._add(f"metrics/{name}", value, trainer)
        self._writer.flush()

    def close(self, trainer: Trainer) -> None:
        """Write out what is buffered."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, name: str, value: float, trainer: Trainer) -> None:
        self._writer.add_scalar(name, value, trainer.step)
