"""The recognition task: what the engine calls to build, train, evaluate and draw a classifier of images or clips."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework import ops
from framework.data import DataLoader
from framework.nn import Layer
from framework.tensor import Tensor
from suites.engine.config import Config
from suites.engine.task import Batch, Metric, Task
from suites.vision.classes import open_dataset
from suites.vision.recognition.datasets import RecognitionDataset, Transformed
from suites.vision.recognition.metrics import Accuracy
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import collate


class RecognitionTask(Task):
    """A classifier with its data; data sets are opened when they are first needed.

    A suite derives from it, names its processor (whose `key` is the batch array that the model takes), gives
    `train_inputs` and `eval_inputs` by that key, and says how an item to predict on is made of a sample.

    Args:
        config: of the suite.
    """

    processor_class: ClassVar[type[RecognitionProcessor]]
    main_metric = "top1"

    def __init__(self, config: Config) -> None:
        self._config = config
        self.model: Layer = config.build("model")
        self._loss = config.build("loss")
        self._key = self.processor_class.key

    @cached_property
    def _eval_set(self) -> RecognitionDataset:
        return self._open("data.eval.dataset")

    def _open(self, path: str) -> RecognitionDataset:
        remedy = "correct data.num_classes"
        return open_dataset(self._config, path, remedy)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled, augmented batches; a short last batch is left out."""
        dataset = self._open("data.train.dataset")
        batch_size = self._config["data.train.batch_size"]
        return DataLoader(
            Transformed(dataset, self._config.build("data.train.transforms"), training=True),
            batch_size,
            shuffle=True,
            seed=seed,
            workers=workers,
            drop_last=len(dataset) >= batch_size,
            batch_transforms=self._config.build("data.train.batch_transforms"),
            collate=partial(collate, key=self._key, num_classes=dataset.num_classes),
        )

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order."""
        return DataLoader(
            Transformed(self._eval_set, self._config.build("data.eval.transforms"), training=False),
            self._config["data.eval.batch_size"],
            workers=workers,
            collate=partial(collate, key=self._key, num_classes=self._eval_set.num_classes),
        )

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
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
        return [(_file_name(dataset, i), self.item_of(dataset.load(i).frames)) for i in picked]

    @abstractmethod
    def item_of(self, frames: np.ndarray) -> Any:
        """What the processor predicts on: an image [H, W, 3], or a clip, from frames [T, H, W, 3]."""

    def names(self, batch: Batch) -> list[str]:
        """What messages call the samples of a batch."""
        return list(batch.get("name", ()))


def _file_name(dataset: RecognitionDataset, index: int) -> str:
    return f"{index:05d}_{Path(dataset.name_of(index)).stem}.jpg"
