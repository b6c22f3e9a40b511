"""AverageLater: begins to average the weights where evaluations get no better (NT-ASGD)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from framework.errors import ConfigError
from suites.engine.config.settings import AsgdSettings, EvaluationSettings
from suites.engine.train.hooks.assess import main_figure
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class AverageLater(Hook):
    """Algorithm 1 of Merity et al. 2018: a figure is worse than the best of those `patience` and more before it.

    Raises ConfigError before training where the task's step keeps no such average.
    """

    priority: ClassVar[int] = 41

    def __init__(self, settings: AsgdSettings, evaluation: EvaluationSettings) -> None:
        self._settings, self._evaluation = settings, evaluation
        self._seen: list[float] = []  # figures so far, with the sign turned where lower is better
        self._begun = False

    def before_train(self, loop: TrainingLoop) -> None:
        """See that there is an average to begin."""
        if not self._begun and not loop.averages_later:
            raise ConfigError(f"runtime.asgd: {type(loop.task).__name__} has updates of its own, which average nothing "
                              "later; set it to null")  # fmt: skip

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Begin, if it is time."""
        name, lower = main_figure(loop.task, self._evaluation)
        if self._begun or name not in metrics:
            return
        value = -metrics[name] if lower else metrics[name]
        before = self._seen[: -self._settings.patience]
        if before and value < max(before):
            loop.average_from_now()
            self._begun = True
            loop.log.say(f"{name} gets no better: weights are averaged from step {loop.step} on")
        self._seen.append(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the figures so far."""
        return {"seen": list(map(repr, self._seen)), "begun": self._begun}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the figures."""
        self._seen, self._begun = list(map(float, state["seen"])), bool(state["begun"])
