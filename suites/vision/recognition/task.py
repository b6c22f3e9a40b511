"""The recognition task: what the engine calls to build, train, evaluate and draw a classifier of images or clips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from framework.errors import ConfigError, NotSupportedError
from framework.nn import Layer
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.data.classes import expect_several
from suites.engine.reporting import Case, Marked, Tally
from suites.vision.augmentation.pipeline import Augmented, Transform
from suites.vision.classes import TRAINING
from suites.vision.recognition.datasets import Drawn, Numbered, RecognitionDataset
from suites.vision.recognition.losses import CrossEntropy, balanced_weights
from suites.vision.recognition.metrics import Accuracy, MultiLabel
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import Labelled, collate
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask


class RecognitionTask(VisionTask):
    """A classifier with its data.

    A suite derives from it, names its processor (whose `sample_class` says what the model takes), gives
    `train_inputs` and `eval_inputs` by that class's key.

    Args:
        model: the classifier.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        loss: what is minimised; cross entropy by default.
        num_classes: how many classes the data sets must have; None for as many as the model predicts.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
    """

    processor_class: ClassVar[type[RecognitionProcessor]]

    def __init__(
        self,
        model: Layer,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        loss: CrossEntropy | None = None,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, num_classes, more_eval)
        self._loss = loss or CrossEntropy()
        self._key = self.processor_class.sample_class.key

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """Top-1 accuracy; mAP where samples have several classes."""
        return "mAP" if self._loss.multi_label else "top1"

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Weighs classes by the training set, where the loss asks for it."""
        if self._loss.class_weights == "balanced":
            dataset = self._open(self.train_data.dataset, "data.train.dataset")
            self._loss = replace(self._loss, class_weights=balanced_weights(dataset.class_counts()))

    def _open(self, dataset: Any, path: str) -> Any:
        opened = super()._open(dataset, path)
        if path == TRAINING and not self._loss.multi_label:
            expect_several(path, dict(zip(opened.class_names, opened.class_counts().tolist(), strict=True)))
        several = getattr(opened, "multi_label", False)
        if several != self._loss.multi_label:
            has, wants = ("several classes", "BinaryCrossEntropy") if several else ("one class", "CrossEntropy")
            raise ConfigError(f"{path}: its samples have {has} each, so the loss must be {wants}")
        weights = self._loss.class_weights
        if isinstance(weights, tuple) and len(weights) != opened.num_classes:
            count = opened.num_classes
            raise ConfigError(f"loss.class_weights: {len(weights)} weights for the {count} classes of {path}")
        return opened

    def collate(self, dataset: RecognitionDataset) -> Callable[[list[Labelled]], Batch]:
        """Returns what makes a batch with the array that the model takes."""
        return partial(collate, num_classes=dataset.num_classes)

    def augmented(self, dataset: RecognitionDataset, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """Returns the data set with its transforms; in training it chooses frames at random."""
        return (Drawn if training else Numbered)(dataset, transforms)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name."""
        return self._loss(self.logits(inputs), inputs["targets"])

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`scores` [N, K], probabilities of the classes."""
        return {"scores": self._loss.scores(self.logits(inputs))}

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What the model says of a batch, [N, K]."""
        logits: Tensor = self.model(inputs[self._key])
        return logits

    def features(self, inputs: dict[str, Tensor]) -> Tensor:
        """What the linear layer sees, [N, D]."""
        if not hasattr(self.model, "features"):
            raise NotSupportedError(f"{type(self.model).__name__}: does not give the features that it classifies")
        found: Tensor = self.model.features(inputs[self._key])
        return found

    def truth(self, batch: Batch) -> np.ndarray:
        """The class of each sample, int64 [N]."""
        if self._loss.multi_label:
            raise NotSupportedError("its samples have several classes each; a probe is for one class a sample")
        return np.asarray(batch["labels"])

    def on_training_set(self) -> Self:
        """Its training set with the transforms of evaluation."""
        return self.with_eval(replace(self.eval_data, dataset=self.train_data.dataset))

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return (MultiLabel if self._loss.multi_label else Accuracy)(self._eval_set.class_names)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Samples of the evaluation set, evenly spread over it."""
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, lambda i: (_file_name(dataset, i), dataset.load(i).pixels))

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray | Marked]:
        """The picture of a sample, a strip of a clip, with what was predicted and what it is."""
        dataset = self._eval_set
        processor = self.processor()
        assert isinstance(processor, RecognitionProcessor)
        return dataset.name_of(case.index), processor.draw_mistake(dataset.load(case.index).pixels, case.detail)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Samples by class, as the lists or folders have them, and what was left out of these."""
        opened = dataset.dataset
        tally.merge(opened.skipped().state())
        tally.add("samples", _names(opened.class_names, opened.class_counts().tolist()), len(opened), whole=True)


def _names(names: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    return dict(zip(names, counts, strict=True))


def _file_name(dataset: RecognitionDataset, index: int) -> str:
    return f"{index:05d}_{Path(dataset.name_of(index)).stem}.jpg"
