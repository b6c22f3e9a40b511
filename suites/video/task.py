"""The video classification task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from functools import partial
from typing import Any

import numpy as np

from framework import ops
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.registry import register
from suites.engine.reporting import Case, Marked, Tally
from suites.video.metrics import TaggedVideos
from suites.video.models.sequences import SequenceClassifier
from suites.video.processor import VideoProcessor
from suites.video.sequence_processor import SequenceProcessor
from suites.video.sequences import collate_sequences
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.task import RecognitionTask

_SHAPE_OF_VIEWS = 6  # axes of clips where a video has several views
_LEAST = 1e-30  # probability below which its logarithm is cut


@register("task", "video")
class VideoTask(RecognitionTask):
    """A video classifier with its data: of clips, or of sequences of features."""

    processor_class = VideoProcessor

    @property
    def _modalities(self) -> dict[str, int] | None:
        return self.model.modalities if isinstance(self.model, SequenceClassifier) else None

    @property
    def eval_inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The clips, or each modality and where sequences begin."""
        return ("clips",) if self._modalities is None else (*self._modalities, "offsets")

    @property
    def train_inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of evaluation, and the classes."""
        return (*self.eval_inputs, "targets")

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """Top-1 accuracy; GAP where videos have several classes."""
        return "GAP" if self._loss.multi_label else "top1"

    def logits(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What the model says of a batch, [N, K]; of several views of each video, the logits of their mean scores."""
        if self._modalities is None:
            clips = inputs["clips"]
            if clips.ndim == _SHAPE_OF_VIEWS:
                return self._mean_logits(clips)
            return super().logits(inputs)
        logits: Tensor = self.model({name: inputs[name] for name in self._modalities}, inputs["offsets"])
        return logits

    def _mean_logits(self, views: Tensor) -> Tensor:
        """Logits [N, K] whose scores are the mean of those of the views [N, V, T, H, W, 3]."""
        scores = self._loss.scores(self.model(ops.flatten(views, start=0, end=1)))
        mean = ops.clip(ops.mean(ops.unflatten_like(scores, views, axis=0), axes=1), _LEAST, 1.0)
        if not self._loss.multi_label:
            return ops.log(mean)
        return ops.log(mean) - ops.log(ops.maximum(1.0 - mean, _LEAST))

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
        return VideoProcessor(transforms, names, astuple(chosen))

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray | Marked]:
        """A strip of a clip with what was predicted and what it is; of features, which cannot be seen, the words."""
        if self._modalities is None:
            return super().show_case(case, predict)
        true, said = case.detail.true, case.detail.said
        words = [(f"{name} {score:.3f}  ", "right" if name in true else "wrong") for name, score in said]
        return self._eval_set.name_of(case.index), [("said: ", ""), *words, (f"true: {', '.join(true)}", "")]

    def count_batch(self, tally: Tally, batch: Batch, *, training: bool) -> None:
        """The lengths of sequences of features."""
        if self._modalities is not None:
            lengths = np.diff(np.asarray(batch["offsets"]))
            tally.measure("rows of a sequence", lengths, len(lengths))

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Samples of the evaluation set, evenly spread over it."""
        if self._modalities is None:
            return super().examples(count)
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, lambda i: (dataset.name_of(i), dict(dataset.load(i).features)))
