"""NanGuard: stops at the first loss that is no number, and says which term and which samples it was.

Where the loss is scaled, a step that overflowed was skipped and the scale fell: only what stays is an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from framework.errors import NumericsError
from suites.engine.hooks.base import Hook

if TYPE_CHECKING:
    from suites.engine.loop import TrainingLoop

_SHOWN = 16  # sample names in the message
_STUCK = 5  # updates skipped in a row at the least scale after which the run ends


class NanGuard(Hook):
    """Checks every loss term of every step, before anything is saved."""

    priority: ClassVar[int] = 0

    def after_step(self, loop: TrainingLoop) -> None:
        """Raise NumericsError for a loss term that is NaN or infinite, or updates that go on being skipped."""
        wrong = {name: value for name, value in loop.losses.items() if not math.isfinite(value)}
        scaler = loop.scaler
        if scaler is not None and scaler.stuck.item() < _STUCK:
            return
        if scaler is None and not wrong:
            return
        terms = (
            ", ".join(f"'{name}' is {value}" for name, value in wrong.items()) or "is finite but its gradients are not"
        )
        if scaler is not None:
            terms += f", for {_STUCK} updates at the least loss scale {scaler.scale.item():g}"
        names = [name for batch in loop.batches for name in loop.task.names(batch)]
        more = f" ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
        raise NumericsError(
            f"train: loss {terms} at step {loop.step} (epoch {loop.epoch}, learning rate {loop.lr:.3g}); "
            f"batch: {', '.join(names[:_SHOWN]) or 'unnamed samples'}{more}; checkpoints before it are intact; "
            "look at these samples, lower schedule.base_lr, lengthen the warm-up or set runtime.clip_norm"
        )
