"""The recognition task: what the engine calls to build, train, evaluate and draw a classifier of images or clips."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework import ops
from framework.tensor import Tensor
from suites.engine.config import Config
from suites.engine.losses import Loss
from suites.engine.task import Batch, Metric, readable
from suites.vision.pipeline import Augmented, Transform
from suites.vision.recognition.datasets import Drawn, RecognitionDataset
from suites.vision.recognition.metrics import Accuracy
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import Sample, collate
from suites.vision.task import VisionTask


class RecognitionTask(VisionTask):
    """A classifier with its data.

    A suite derives from it, names its processor (whose `key` is the batch array that the model takes), gives
    `train_inputs` and `eval_inputs` by that key, and says how an item to predict on is made of a sample.

    Args:
        config: of the suite.
    """

    processor_class: ClassVar[type[RecognitionProcessor]]
    main_metric = "top1"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._loss = config.build("loss")
        self._key = self.processor_class.key

    def collate(self, dataset: RecognitionDataset) -> Callable[[list[Sample]], Batch]:
        """Returns what makes a batch with the array that the model takes."""
        return partial(collate, key=self._key, num_classes=dataset.num_classes)

    def augmented(self, dataset: RecognitionDataset, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """Returns the data set with its transforms; in training it chooses frames at random."""
        return (Drawn if training else Augmented)(dataset, transforms)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name."""
        return self._loss(self.model(inputs[self._key]), inputs["targets"])

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`scores` [N, K], probabilities of the classes."""
        return {"scores": ops.softmax(self.model(inputs[self._key]), axis=-1)}

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return Accuracy(self._eval_set.class_names)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Samples of the evaluation set, evenly spread over it."""
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, lambda i: (_file_name(dataset, i), self.item_of(dataset.load(i).frames)))

    @abstractmethod
    def item_of(self, frames: np.ndarray) -> Any:
        """What the processor predicts on: an image [H, W, 3], or a clip, from frames [T, H, W, 3]."""


def _file_name(dataset: RecognitionDataset, index: int) -> str:
    return f"{index:05d}_{Path(dataset.name_of(index)).stem}.jpg"
