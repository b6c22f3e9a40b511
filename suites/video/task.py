"""The video classification task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from framework.nn import Layer
from framework.tensor import Tensor
from suites.engine.registry import register
from suites.engine.task import Batch, Metric, Processor, readable
from suites.video.metrics import TaggedVideos
from suites.video.models.sequences import SequenceClassifier
from suites.video.processor import VideoProcessor
from suites.video.sequence_processor import SequenceProcessor
from suites.video.sequences import collate_sequences
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.recognition.task import RecognitionTask
from suites.vision.settings import EvalData, TrainData


@register("task", "video")
class VideoTask(RecognitionTask):
    """A video classifier with its data: of clips, or of sequences of features.

    Args:
        model: the classifier; a `SequenceClassifier` learns from features.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        loss: what is minimised; cross entropy by default.
        num_classes: how many classes the data sets must have; None for as many as the model predicts.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
    """

    processor_class = VideoProcessor

    def __init__(
        self,
        model: Layer,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        loss: CrossEntropy | None = None,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, loss, num_classes, more_eval)
        self._modalities = model.modalities if isinstance(model, SequenceClassifier) else None
        self.eval_inputs = ("clips",) if self._modalities is None else (*self._modalities, "offsets")
        self.train_inputs = (*self.eval_inputs, "targets")

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """Top-1 accuracy; GAP where videos have several classes."""
        return "GAP" if self._loss.multi_label else "top1"

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What the model says of a batch, [N, K]."""
        if self._modalities is None:
            return super().logits(inputs)
        logits: Tensor = self.model({name: inputs[name] for name in self._modalities}, inputs["offsets"])
        return logits

    def collate(self, dataset: RecognitionDataset) -> Callable[[list[Any]], Batch]:
        """Returns what makes a batch with the arrays that the model takes."""
        if self._modalities is None:
            return super().collate(dataset)
        return partial(collate_sequences, num_classes=dataset.num_classes)

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        if self._loss.multi_label:
            return TaggedVideos(self._eval_set.class_names)
        return super().metric()

    def processor(self) -> Processor:
        """Preprocessing of evaluation and class names; of clips also the segments of the evaluation set."""
        names, transforms = self._eval_set.class_names, self.eval_data.transforms
        if self._modalities is not None:
            return SequenceProcessor(transforms, names, self._modalities)
        chosen = self._eval_set.segments
        return VideoProcessor(transforms, names, (chosen.count, chosen.length, chosen.interval))

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Samples of the evaluation set, evenly spread over it."""
        if self._modalities is None:
            return super().examples(count)
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, lambda i: (dataset.name_of(i), dict(dataset.load(i).features)))
