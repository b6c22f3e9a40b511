"""The task of metric learning: what the engine calls to train, evaluate and draw a network that gives vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import ConfigError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.retrieval.datasets.pairs import PairList
from suites.retrieval.losses import ArcFace, ClassVectors, MetricLoss
from suites.retrieval.metrics import Neighbours, Verification
from suites.retrieval.models.embedding import Embedder
from suites.retrieval.processor import RetrievalProcessor
from suites.retrieval.settings import EvalData, TrainData
from suites.vision.augmentation.pipeline import Augmented, Transform
from suites.vision.ordering import PerClass
from suites.vision.recognition.datasets import Numbered, RecognitionDataset
from suites.vision.recognition.sample import Labelled, collate
from suites.vision.task import VisionTask

_log = logging.getLogger(__name__)


@register("task", "retrieval")
class RetrievalTask(VisionTask):
    """A network of vectors with its data.

    Args:
        model: the network.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on; a `PairList` is evaluated by its pairs.
        loss: what is minimised; `ArcFace` by default.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `lfw/accuracy`.
    """

    train_inputs: tuple[str, ...] = ("images", "labels")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = RetrievalProcessor
    model: Embedder
    helpers: ClassVectors | None = None

    def __init__(
        self,
        model: Embedder,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        loss: MetricLoss | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, None, more_eval)
        self._loss = loss or ArcFace()

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """`recall@1`; the accuracy of pairs."""
        return "accuracy" if self._eval is not None and isinstance(self._eval_set, PairList) else "recall@1"

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Makes the vectors of the training set's classes, where the loss has them."""
        if self._loss.has_classes:
            dataset = self._open(self.train_data.dataset, "data.train.dataset")
            self.helpers = ClassVectors(dataset.num_classes, self.model.size)
            init.initialize(self.helpers, seed)

    def train_loader(self, *, seed: int, workers: int) -> Any:
        """Shuffled, augmented batches.

        Raises ConfigError for a loss of pairs on batches that have none, or batches that cut a class's samples.
        """
        order, size = self.train_data.order, self.train_data.batch_size
        if self._loss.pairs and order is None:
            name = type(self._loss).__name__
            raise ConfigError(f"data.train.order: {name} compares samples of a class; give it {{type: PerClass, m: 4}}")
        if isinstance(order, PerClass) and (size % order.m or size <= order.m):
            raise ConfigError(
                f"data.train.batch_size is {size}; with PerClass it is a multiple of m {order.m}, and above it"
            )
        return super().train_loader(seed=seed, workers=workers)

    def collate(self, dataset: RecognitionDataset) -> Callable[[list[Labelled]], Batch]:
        """Returns what makes a batch of images with labels."""
        return partial(collate, num_classes=dataset.num_classes)

    def augmented(self, dataset: RecognitionDataset, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """Returns the data set with its transforms."""
        return (Augmented if training else Numbered)(dataset, transforms)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """The loss by name."""
        return self._loss(self.model(inputs["images"]), inputs["labels"], self.helpers)

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`vectors` [N, D] of length 1."""
        return {"vectors": self.model(inputs["images"])}

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        dataset = self._eval_set
        return Verification(dataset.pairs) if isinstance(dataset, PairList) else Neighbours(dataset.class_names)

    def processor(self) -> RetrievalProcessor:
        """Preprocessing of evaluation."""
        return RetrievalProcessor(self.eval_data.transforms, ())

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Pictures of the evaluation set, evenly spread over it."""
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return readable(picked, self.example)

    def example(self, index: int) -> tuple[str, Any]:
        """A picture of the evaluation set."""
        dataset = self._eval_set
        return f"{index:05d}_{Path(dataset.name_of(index)).stem}.jpg", dataset[index].pixels

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Pictures by class, and what was left out."""
        opened = dataset.dataset
        tally.merge(opened.skipped().state())
        counts = dict(zip(opened.class_names, opened.class_counts().tolist(), strict=True))
        tally.add("samples", counts, len(opened), whole=True)
