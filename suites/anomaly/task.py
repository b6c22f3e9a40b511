"""The task of anomalies: what the engine calls to fit, evaluate and draw a model of good pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from framework.data import DataLoader
from framework.errors import DataError, NotSupportedError
from framework.optim import Optimizer
from framework.tensors import Tensor
from suites.anomaly.fitting import FitStep, Settling, Threshold
from suites.anomaly.metrics import AnomalyMetric
from suites.anomaly.models.base import AnomalyModel
from suites.anomaly.processor import AnomalyProcessor
from suites.anomaly.sample import collate
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.engine.train.loop import Hook
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask

_LEAST = 2  # good pictures: one to fit, one to hold back


@register("task", "anomaly")
class AnomalyTask(VisionTask):
    """A model of good pictures with its data.

    Args:
        model: the model.
        train: good pictures; None for a task that only predicts.
        eval: what is evaluated on: good pictures, defects, or both.
        threshold: how the model's threshold is chosen.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/image_AUROC`.
    """

    train_inputs: tuple[str, ...] = ("images",)
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = AnomalyProcessor
    model: AnomalyModel
    _step: FitStep | None = None

    def __init__(
        self,
        model: AnomalyModel,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        threshold: Threshold | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, None, more_eval)
        self._threshold = threshold or Threshold()

    @cached_property
    def _train_set(self) -> Any:
        return self._open(self.train_data.dataset, "data.train.dataset")

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """`image_AUROC`; of a set of one kind of picture alone `false_alarms` or `missed`."""
        labels = self._eval_set.labels
        if labels.min() == labels.max():
            return "missed" if labels[0] else "false_alarms"
        return "image_AUROC"

    @property
    def lower_is_better(self) -> bool:  # type: ignore[override]
        """Whether the main figure is one of mistakes."""
        return self.main_metric != "image_AUROC"

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Says what fitting takes; DataError for a training set that has a defect, or one picture alone."""
        dataset = self._train_set
        if dataset.labels.any():
            at = int(dataset.labels.argmax())
            raise DataError(
                f"data.train.dataset: {dataset.name_of(at)} is of the kind '{dataset.kinds[at]}'; a model of good "
                "pictures is fitted on good ones alone"
            )
        if len(dataset) < _LEAST:
            raise DataError(f"data.train.dataset: there is 1 good picture; {_LEAST} are needed, one for the threshold")
        sizes, counts = np.unique(getattr(dataset, "sizes", lambda: np.zeros((1, 2)))(), axis=0, return_counts=True)
        if len(sizes) > 1:
            shown = ", ".join(f"{w}x{h} ({n})" for (h, w), n in list(zip(sizes, counts, strict=True))[:5])
            say(f"the good pictures are of {len(sizes)} sizes: {shown}; what they show has to be at the same scale")
        held = len(dataset) // self._threshold.every(len(dataset))
        say(f"{self.model.memory(len(dataset) - held)}; {held} of {len(dataset)} pictures are held back")

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> FitStep:
        """What shows the model a batch; there is nothing to optimize."""
        self._step = FitStep(self, self._threshold, len(self._train_set), runtime)
        return self._step

    def hooks(self) -> Sequence[Hook]:
        """What has the model take in what was gathered."""
        return () if self._step is None else (Settling(self._step, self._threshold),)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """All good pictures, in order."""
        data, dataset = self.train_data, self._train_set
        return DataLoader(
            self.augmented(dataset, data.transforms, training=True),
            data.batch_size,
            seed=seed,
            workers=workers,
            collate=self.collate(dataset),
        )

    def collate(self, dataset: Any) -> Callable[[list[Any]], Batch]:
        """Returns what makes a batch."""
        return partial(collate, size=self.model.size)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Refuses: there is no loss."""
        raise NotSupportedError("a model of good pictures has no loss; leave runtime.evaluation.loss at false")

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`scores` [N] and `maps` [N, H, W], in which 1 is the threshold."""
        return self.model(inputs["images"])

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return AnomalyMetric(self._eval_set.masks)

    def processor(self) -> AnomalyProcessor:
        """What stands around the model."""
        return AnomalyProcessor(self.eval_data.transforms, self.names_of_classes())

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Pictures of the evaluation set, evenly spread over it."""
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, self.example)

    def example(self, index: int) -> tuple[str, Any]:
        """A picture of the evaluation set."""
        dataset = self._eval_set
        return f"{index:05d}_{Path(dataset.name_of(index)).stem}.jpg", dataset.image(index)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Pictures by kind, and what was left out."""
        opened = dataset.dataset
        tally.merge(opened.skipped().state())
        kinds, counts = np.unique(opened.kinds, return_counts=True)
        tally.add("samples", dict(zip(kinds.tolist(), counts.tolist(), strict=True)), len(opened), whole=True)
