"""The task: what the engine calls to build, train, evaluate and draw the generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework import Tensor
from framework.data import DataLoader
from framework.nn import init
from framework.optim import Optimizer
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.contract.metric import Metric
from suites.engine.contract.step import Step
from suites.engine.contract.task import Task
from suites.engine.registry import register

from .data import Pairs, Singles
from .models import Both
from .processor import StyleProcessor
from .settings import Data, LossSettings, Model
from .step import CycleStep


class CycleError(ArrayMetric):
    """Figures: `cycle_error`, how far a picture is from itself after the way there and back, and `change`, how far
    what is made of it is from it; mean absolute differences, where 2 is black against white.
    """

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `made` and `back` [N, S, S, 3] with the batch's `images`."""
        axes = (1, 2, 3)
        self.gather(
            cycle=np.abs(outputs["back"] - batch["images"]).mean(axis=axes),
            change=np.abs(outputs["made"] - batch["images"]).mean(axis=axes),
        )

    def result(self) -> dict[str, float]:
        """The figures."""
        return {
            "cycle_error": float(self.gathered("cycle").mean()),
            "change": float(self.gathered("change").mean()),
        }


@register("task", "cyclegan", suite="cyclegan")
class CycleTask(Task):
    """Two generators that are kept, and two discriminators that only training needs.

    Args:
        model: the networks.
        data: what they are trained and evaluated on.
        loss: what is minimised.
    """

    train_inputs = ("a", "b")
    eval_inputs = ("images",)
    main_metric, lower_is_better = "cycle_error", True
    processor_class = StyleProcessor

    def __init__(self, model: Model, data: Data, loss: LossSettings | None = None) -> None:
        self.model = Both(model.generator(), model.generator())
        self.helpers = Both(model.discriminator(), model.discriminator())
        self._data, self._loss = data, loss or LossSettings()

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Draw the discriminators; the engine draws the generators."""
        init.initialize(self.helpers, seed + 1)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled pictures of the first style, each with one of the second; an epoch is a pass over the first."""
        pairs = Pairs(self._data.a, self._data.b)
        return DataLoader(pairs, self._data.batch_size, shuffle=True, seed=seed, workers=workers, drop_last=True)

    def eval_loader(self, *, workers: int) -> DataLoader:
        """Pictures of the first style, in order."""
        return DataLoader(Singles(self._data.eval), 16, workers=workers)

    def train_step(self, inputs: dict[str, Tensor]) -> Any:
        """There is none: an update is `CycleStep`'s."""
        raise NotImplementedError

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """Two optimizers: one of the generators, one of the discriminators."""
        loss = self._loss
        return CycleStep(self, make_optimizer, runtime, cycle=loss.cycle, identity=loss.identity, buffer=loss.buffer)

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`made` in the second style, and `back` from there, [N, S, S, 3]."""
        made = self.model.b(inputs["images"])
        return {"made": made, "back": self.model.a(made)}

    def metric(self) -> Metric:
        """A new, empty metric."""
        return CycleError()

    def processor(self) -> StyleProcessor:
        """What stands around the generators."""
        return StyleProcessor(self._data.size)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first pictures of the first style."""
        pictures = self._data.eval
        return readable(range(len(pictures)), lambda i: (pictures.name_of(i), pictures.picture(i)), count)
