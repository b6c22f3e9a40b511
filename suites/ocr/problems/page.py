"""Whole pages: texts are found, turned upright and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from framework import ops
from framework.data import DataLoader
from framework.errors import NotSupportedError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.ocr.datasets.pages import PageDataset
from suites.ocr.finding import Finding
from suites.ocr.metrics import FoundTexts
from suites.ocr.models.reader import TextReader
from suites.ocr.page import INPUTS, Lines
from suites.ocr.problems.base import How, Problem, expect, expect_finding, language_of, read_columns
from suites.ocr.processor import PageProcessor
from suites.ocr.settings import EvalData, TrainData
from suites.vision.task import unprepared


def ways(processor: PageProcessor, batch: Batch) -> Iterator[Batch]:
    """The way of each of the `samples` of a batch through the networks."""
    for sample in batch["samples"]:
        for part in processor.page(sample.image).batches():
            yield {**part, "sample": sample}


class PageProblem(Problem):
    """Of a `TextReader`.

    Args:
        model: the networks.
        how: how texts are found and read.
    """

    train_inputs: tuple[str, ...] = INPUTS
    eval_inputs: ClassVar[tuple[str, ...]] = INPUTS
    main_metric: ClassVar[str] = "hmean"

    def __init__(self, model: TextReader, how: How) -> None:
        how.expect_unset(type(model).__name__, "loss")
        expect_finding(model.detector, how)
        self._model, self._how = model, how
        self._language = language_of(model.recogniser, how)

    def train_loader(self, data: TrainData, dataset: Any, *, seed: int, workers: int) -> DataLoader:
        """NotSupportedError: the parts are trained one by one."""
        raise NotSupportedError(
            "TextReader: is put together from trained networks; train its detector or its recogniser by a config of "
            "its own, such as ocr/dbnet_icdar2015, and name their weights in this one"
        )

    def eval_loader(self, data: EvalData, dataset: Any, *, workers: int) -> DataLoader:
        """The pictures as they are; `parts` has what the networks are shown."""
        expect(dataset, PageDataset, "TextReader")
        return DataLoader(dataset, data.batch_size, workers=workers, collate=unprepared)

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """There are none."""
        raise NotSupportedError("TextReader: is put together from trained networks and has no loss")

    def predictions(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`text` [N, H, W] of images, `characters` and `scores` [M, T] of lines, `direction` [M', 2] of turned ones."""
        model = self._model
        found = {
            "text": model.detector(inputs["images"]),
            **read_columns(model.recogniser, inputs["lines"], self._language is not None),
        }
        if model.direction is not None:
            found["direction"] = ops.softmax(model.direction(inputs["turned"]), axis=-1)
        return found

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """Each picture's way through the networks."""
        return ways(self.processor(), batch)

    def metric(self) -> Metric:
        """Of finding and reading."""
        return FoundTexts(reads=True)

    def processor(self) -> PageProcessor:
        """Pictures to texts."""
        recogniser = self._model.recogniser
        direction = self._model.direction is not None
        lines = Lines(recogniser.alphabet, recogniser.height, direction, recogniser.widest, self._language)
        return PageProcessor(self._how.finding or Finding(), self._how.reading, lines)
