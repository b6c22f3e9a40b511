"""NanGuard: stops at the first loss that is no number, and says which term and which samples it was.

Where the loss is scaled, a step that overflowed was skipped and the scale fell: only what stays is an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from framework.errors import NumericsError
from suites.engine.contract.step import Update
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

_SHOWN = 16  # sample names in the message
_STUCK = 5  # updates skipped in a row at the least scale after which the run ends


class _Seen(NamedTuple):
    """A step that was not looked at yet: its number, epoch, learning rate, sample names, and what it came to."""

    step: int
    epoch: int
    lr: float
    names: list[str]
    update: Update

    def wrong(self) -> dict[str, float]:
        """Its loss terms that are no numbers."""
        return {name: value for name, value in self.update.losses.items() if not math.isfinite(value)}


class NanGuard(Hook):
    """Looks at every loss term, some steps at a time, and always before anything is evaluated or saved.

    Args:
        every: steps between two looks. Until then the names of the steps' samples are kept, and no number is read.
    """

    priority: ClassVar[int] = 0

    def __init__(self, *, every: int = 1) -> None:
        self._every = every
        self._unread: list[_Seen] = []

    def after_step(self, loop: TrainingLoop) -> None:
        """Remember the step, and look if it is time."""
        names = [name for batch in loop.batches for name in loop.task.names(batch)]
        if loop.update is not None:
            self._unread.append(_Seen(loop.step, loop.epoch, loop.lr, names, loop.update))
        if loop.step % self._every == 0:
            self._look(loop)

    def before_keeping(self, loop: TrainingLoop) -> None:
        """Look, so that nothing is kept that a loss which is no number has touched."""
        self._look(loop)

    def after_train(self, loop: TrainingLoop) -> None:
        """Look at the last steps."""
        self._look(loop)

    def _look(self, loop: TrainingLoop) -> None:
        """Raise NumericsError for a loss term that is NaN or infinite, or updates that go on being skipped."""
        unread, self._unread = self._unread, []
        wrong = [seen for seen in unread if seen.wrong()]
        scaler = loop.scaler
        if scaler is None:
            if wrong:
                raise _error(wrong[0])
        elif unread and (stuck := int(scaler.stuck.item())) >= _STUCK:
            more = f", for {stuck} updates at the least loss scale {scaler.scale.item():g}"
            raise _error(wrong[-1] if wrong else unread[-1], more)


def _error(seen: _Seen, more: str = "") -> NumericsError:
    terms = ", ".join(f"'{name}' is {value}" for name, value in seen.wrong().items())
    names = seen.names
    rest = f" ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return NumericsError(
        f"train: loss {terms or 'is finite but its gradients are not'}{more} at step {seen.step} "
        f"(epoch {seen.epoch}, learning rate {seen.lr:.3g}); "
        f"batch: {', '.join(names[:_SHOWN]) or 'unnamed samples'}{rest}; checkpoints before it are intact; "
        "look at these samples, lower schedule.base_lr, lengthen the warm-up or set runtime.clip_norm; "
        "-o runtime.detect_anomaly=true names the operator"
    )
