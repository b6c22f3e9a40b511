"""Fitting: one pass over good pictures without gradients, then the model's buffers and its threshold.

Some pictures are held back: they are not fitted, and their scores say where good ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from framework import from_numpy, no_grad, program, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.hosts import world
from suites.anomaly.models.base import AnomalyModel
from suites.engine.contract.batch import Batch
from suites.engine.contract.step import Step, Update
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.task import Task
    from suites.engine.train.loop import TrainingLoop

_MOST_HELD = 64  # pictures whose features are kept for the threshold
_LEAST = 1e-3  # of a threshold, where pictures held back are copies of others


@dataclass(frozen=True)
class Threshold:
    """Above which score a picture, and which number of the heat map a pixel, is a defect.

    Args:
        by: "good": the scores of good pictures that are held back; "f1": where F1 on the evaluation set is highest,
            which needs defects there, and flatters the figures of that set.
        quantile: share of the held back pictures that stay below, for "good"; 1 for all.
        held_back: every how manyth good picture is held back, at most 64 of them.
    """

    by: Literal["good", "f1"] = "good"
    quantile: float = 1.0
    held_back: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.quantile <= 1 or self.held_back < 2:
            raise AttributeValueError(
                f"threshold: quantile is {self.quantile} and held_back {self.held_back}; quantile is above 0 and "
                "at most 1, held_back 2 or more"
            )

    def every(self, pictures: int) -> int:
        """Every how manyth of so many pictures is held back: at least one, at most 64."""
        return max(min(self.held_back, pictures), -(-pictures // _MOST_HELD))


class FitStep(Step):
    """Shows the model a batch of good pictures.

    Args:
        task: gives the model.
        threshold: how its threshold is chosen.
        pictures: of the training set.
        runtime: how the run trains.
    """

    inputs = ("images",)

    def __init__(self, task: Task, threshold: Threshold, pictures: int, runtime: Runtime) -> None:
        super().__init__(task)
        if world().size > 1 or runtime.ema or runtime.precision != "float32":
            raise ConfigError("runtime: models of good pictures are fitted on one host, without ema and precision")
        assert isinstance(task.model, AnomalyModel)
        self._model, self._threshold = task.model, threshold
        self._every = threshold.every(pictures)
        self._fit = self._model.fit(runtime.seed)
        self._held: dict[int, np.ndarray] = {}
        self._settled = -1
        self._embed = self._model.embed if runtime.eager else program(self._model.embed)
        self._rate = self._model.rate if runtime.eager else program(self._model.rate)

    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Takes in the pictures; there is no loss."""
        self._model.eval()
        for batch in batches:
            with no_grad():
                rows = self._embed(from_numpy(batch["images"])).numpy()
            held = batch["numbers"] % self._every == self._every - 1
            self._held |= {int(at): row.copy() for at, row in zip(batch["numbers"][held], rows[held], strict=True)}
            self._fit.add(rows[~held])
        return Update({}, {"pictures": float(sum(len(batch["numbers"]) for batch in batches))})

    def settle(self) -> None:
        """Gives the model what was gathered so far; the same once more does nothing."""
        if self._settled == self.updates:
            return
        self._give(self._fit.settle())
        if self._held:
            self._model.eval()
            with no_grad():
                found = [self._rate(from_numpy(row[None])) for _, row in sorted(self._held.items())]
            peaks = np.array([[float(scores), float(maps.numpy().max())] for scores, maps in found])
            limits = np.quantile(peaks, self._threshold.quantile, axis=0, method="higher")
            self._give({"limits": np.maximum(limits, _LEAST).astype(np.float32)})
        self._settled = self.updates

    def move_limits(self, factors: Sequence[float]) -> None:
        """Multiplies the thresholds of pictures and pixels."""
        limits = self._model.limits.numpy() * np.array(factors, np.float32)
        self._give({"limits": np.maximum(limits, _LEAST).astype(np.float32)})

    def _give(self, arrays: Mapping[str, np.ndarray]) -> None:
        for name, array in arrays.items():
            getattr(self._model, name).set(tensor(array))

    def state_dict(self) -> dict[str, Any]:
        """The model, what was gathered, and the pictures held back."""
        numbers = sorted(self._held)
        held = {"numbers": np.array(numbers, np.int64), "rows": np.array([self._held[at] for at in numbers])}
        return {**super().state_dict(), "fit": self._fit.state_dict(), "held": held, "settled": self._settled}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` returned; CheckpointError where it is another model's."""
        super().load_state_dict(state)
        self._fit.load_state_dict(state["fit"])
        held = state["held"]
        numbers, rows = np.asarray(held["numbers"]), np.asarray(held["rows"], np.float32)
        self._held = {int(at): row for at, row in zip(numbers, rows, strict=True)}
        self._settled = int(state["settled"])


class Settling(Hook):
    """Has the model take what was gathered before it is evaluated or saved, and moves its threshold to the best F1.

    Args:
        step: that of the run.
        threshold: how it is chosen.
    """

    priority: ClassVar[int] = 30

    def __init__(self, step: FitStep, threshold: Threshold) -> None:
        self._step, self._threshold = step, threshold

    def before_keeping(self, loop: TrainingLoop) -> None:
        """Settle."""
        self._step.settle()

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Moves the threshold, where the evaluation set has good pictures and defects."""
        if self._threshold.by == "f1":
            self._step.move_limits([metrics.get("F1_threshold", 1.0), metrics.get("pixel_F1_threshold", 1.0)])
