"""Finding texts in pictures: a DBNet, its maps and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from framework.data import DataLoader
from framework.errors import ConfigError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.ocr.datasets.pages import PageDataset
from suites.ocr.finding import Finding
from suites.ocr.losses import MapLoss
from suites.ocr.metrics import FoundTexts
from suites.ocr.models.base import TextDetector
from suites.ocr.models.dbnet import DBNet
from suites.ocr.pixels import shown
from suites.ocr.problems.base import How, Problem, expect, expect_finding, expect_reading, shuffled
from suites.ocr.problems.page import ways
from suites.ocr.processor import PageProcessor
from suites.ocr.sample import PageSample
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.targets import targets
from suites.vision.task import unprepared

_MAPS = ("text", "counted", "threshold", "near")


class FindingProblem(Problem):
    """Of a detector; a `DBNet` is trained too.

    Args:
        model: the network.
        how: how texts are found, and what is minimised.
    """

    train_inputs: tuple[str, ...] = ("images", *_MAPS)
    eval_inputs: ClassVar[tuple[str, ...]] = ("images",)
    main_metric: ClassVar[str] = "hmean"

    def __init__(self, model: TextDetector, how: How) -> None:
        if not isinstance(model, DBNet):
            how.expect_unset(type(model).__name__, "loss")
        expect_finding(model, how)
        expect_reading(how, type(model).__name__, "least_side", "most_side", "flatness")
        self._model, self._how, self._loss = model, how, how.loss or MapLoss()

    def train_loader(self, data: TrainData, dataset: Any, *, seed: int, workers: int) -> DataLoader:
        """Shuffled squares of pictures with their targets; NotSupportedError of a detector that is not trained here."""
        self._trained()
        expect(dataset, PageDataset, type(self._model).__name__)
        return shuffled(data, dataset, collate_pages, "squares of pages", seed=seed, workers=workers)

    def eval_loader(self, data: EvalData, dataset: Any, *, workers: int) -> DataLoader:
        """The pictures as they are; `parts` has what the network is shown."""
        expect(dataset, PageDataset, type(self._model).__name__)
        return DataLoader(dataset, data.batch_size, workers=workers, collate=unprepared)

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Of the text, the binary map and the thresholds."""
        return self._loss(self._trained().maps(inputs["images"]), inputs)

    def _trained(self) -> DBNet:
        if not isinstance(self._model, DBNet):
            name = type(self._model).__name__
            raise NotSupportedError(f"{name}: is not trained here; DBNet is, by a config such as ocr/dbnet_icdar2015")
        return self._model

    def predictions(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`text` [N, H, W], the probability of text, or [N, H', W', 2], characters and links."""
        return {"text": self._model(inputs["images"])}

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """Each picture."""
        return ways(self.processor(), batch)

    def metric(self) -> Metric:
        """Of finding."""
        return FoundTexts(reads=False)

    def processor(self) -> PageProcessor:
        """Pictures to outlines."""
        return PageProcessor(self._how.finding or Finding(), self._how.reading, None)


def collate_pages(samples: Sequence[PageSample]) -> Batch:
    """Pictures of one size with their targets, float32 [N, H, W, 3] and [N, H, W]; ConfigError where sizes differ."""
    sizes = sorted({sample.size for sample in samples})
    if len(sizes) > 1:
        raise ConfigError(
            f"data.train.transforms: leave pictures of {sizes[0]} and {sizes[1]} pixels; end them with RandomTextCrop"
        )
    each = [targets(sample.polygons, sample.ignored, sample.size) for sample in samples]
    maps = {name: np.stack([getattr(found, name) for found in each]) for name in _MAPS}
    numbers = [sample.number for sample in samples]
    return {"images": np.stack([shown(sample.image) for sample in samples]), **maps, "numbers": numbers}
