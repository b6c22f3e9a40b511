"""Hook: what may be added to the training loop, and the few points at which it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

LAST_WORDS = 1.0  # seconds in which a signal is waited for where a worker ended first


class Hook:
    """Base of all hooks; does nothing at every point.

    At each point hooks run by `priority`, the lowest first, and in the order they were given among equals.
    `name` keys the hook's state in a checkpoint.
    """

    priority: ClassVar[int] = 50

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self).__name__

    def before_train(self, loop: TrainingLoop) -> None:
        """Before the first step, after a checkpoint was loaded."""

    def after_resume(self, loop: TrainingLoop) -> None:
        """After `before_train` of all hooks, if the run continues from a checkpoint."""

    def before_step(self, loop: TrainingLoop) -> None:
        """After the update's batches were read into `loop.batches`."""

    def after_step(self, loop: TrainingLoop) -> None:
        """After the update; `loop.step` counts it and `loop.update` has its numbers, which are read if looked at."""

    def before_keeping(self, loop: TrainingLoop) -> None:
        """Before an evaluation or a checkpoint; an error here keeps the step from being evaluated or saved."""

    def during_evaluation(self, loop: TrainingLoop, done: int, total: int) -> None:
        """After each batch of an evaluation: `done` of `total`, which is 0 where nobody counted."""

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """After an evaluation, with its figures."""

    def after_train(self, loop: TrainingLoop) -> None:
        """After the last step, also when stopped early or by Ctrl-C; not after an error."""

    def after_failure(self, loop: TrainingLoop) -> None:
        """After an error between two steps, in place of `after_train`: the weights are those of `loop.step`."""

    def close(self, loop: TrainingLoop) -> None:
        """At the very end, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """Return what must be saved to continue exactly: numbers, strings, arrays, and dicts and lists of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
