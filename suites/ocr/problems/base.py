"""Problem: what is asked of a kind of network: how data become batches, what is minimised, measured and predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from framework import ops
from framework.data import DataLoader
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.ocr.decoding import Language
from suites.ocr.finding import Finding
from suites.ocr.losses import MapLoss
from suites.ocr.models.attention import AttentionReader
from suites.ocr.models.base import TextDetector, TextRecogniser
from suites.ocr.models.craft import Craft
from suites.ocr.page import Reading
from suites.ocr.processor import OcrProcessor
from suites.ocr.settings import EvalData, TrainData
from suites.vision.augmentation.pipeline import Augmented


@dataclass(frozen=True)
class How:
    """How texts are found and read.

    Attributes:
        finding: text in a map; None for the defaults.
        reading: how pictures and lines are shown.
        loss: what a detector minimises; None for the published weights of its terms.
        language: what `reading.beam` read of its files, where a run keeps it; None reads them.
    """

    finding: Finding | None = None
    reading: Reading = field(default_factory=Reading)
    loss: MapLoss | None = None
    language: Language | None = None

    def expect_unset(self, who: str, *names: str) -> None:
        """Raise ConfigError for a section that a network has no use for."""
        for name in names:
            if getattr(self, name) is not None:
                raise ConfigError(f"{name}: {who} has no use for it; leave it out")


class Problem(ABC):
    """What is asked of one kind of network.

    Attributes:
        train_inputs: see `Task`.
        eval_inputs: see `Task`.
        main_metric: see `Task`.
    """

    train_inputs: tuple[str, ...]
    eval_inputs: ClassVar[tuple[str, ...]]
    main_metric: ClassVar[str]

    @abstractmethod
    def train_loader(self, data: TrainData, dataset: Any, *, seed: int, workers: int) -> DataLoader:
        """Shuffled batches."""

    @abstractmethod
    def eval_loader(self, data: EvalData, dataset: Any, *, workers: int) -> DataLoader:
        """The evaluation set in order."""

    @abstractmethod
    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """What is minimised, by name."""

    @abstractmethod
    def predictions(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the networks give, by name."""

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """What a batch of evaluation is predicted on by."""
        return (batch,)

    @abstractmethod
    def metric(self) -> Metric:
        """A new, empty metric."""

    def check(self, dataset: Any, what: str) -> list[str]:
        """Lines on what a user should know of a data set before it is trained or evaluated on."""
        return []

    @abstractmethod
    def processor(self) -> OcrProcessor:
        """What stands around the network."""


def shuffled(
    data: TrainData, dataset: Any, collate: Callable[[Any], Batch], what: str, *, seed: int, workers: int
) -> DataLoader:
    """Shuffled, augmented batches of samples of one size, which `what` names; ConfigError for `data.pool`."""
    if data.pool:
        raise ConfigError(f"data.train.pool: is of lines to read; {what} are of one size, so leave it out")
    return DataLoader(
        Augmented(dataset, data.transforms),
        data.batch_size,
        shuffle=True,
        seed=seed,
        workers=workers,
        drop_last=len(dataset) >= data.batch_size,
        collate=collate,
    )


def expect_reading(how: How, who: str, *used: str) -> None:
    """Raise ConfigError for a setting of `reading` that is changed and is none of those `used`."""
    usual = Reading()
    for each in fields(Reading):
        if each.name not in used and getattr(how.reading, each.name) != getattr(usual, each.name):
            raise ConfigError(f"reading.{each.name}: {who} has no use for it; leave it out")


def expect_finding(model: TextDetector, how: How) -> None:
    """Raise ConfigError for a setting of `finding` that this detector's maps have no use for."""
    chosen, usual = how.finding or Finding(), Finding()
    for name in ("unclip", "dilate") if isinstance(model, Craft) else ("link",):
        if getattr(chosen, name) != getattr(usual, name):
            raise ConfigError(f"finding.{name}: {type(model).__name__} has no use for it; leave it out")


def language_of(model: TextRecogniser, how: How) -> Language | None:
    """The language that lines are read with; ConfigError for a recogniser whose columns are no CTC's."""
    if how.reading.beam is None:
        return None
    if isinstance(model, AttentionReader):
        raise ConfigError("reading.beam: AttentionReader writes without CTC and has no use for it; leave it out")
    return how.language or how.reading.beam.language(model.alphabet)


def read_columns(model: TextRecogniser, lines: Tensor, whole: bool) -> dict[str, Tensor]:
    """What a recogniser says of lines: `characters` and `scores` [N, T]; `columns` [N, T, K] where it is all wanted."""
    characters, scores = model.read(lines)
    found = {"characters": characters, "scores": scores}
    return {**found, "columns": ops.log_softmax(model(lines), axis=-1)} if whole else found


def expect(dataset: Any, kind: type, who: str) -> None:
    """Raise ConfigError for a data set of other samples."""
    if not isinstance(dataset, kind):
        raise ConfigError(f"{who}: takes a {kind.__name__}, and {type(dataset).__name__} is another kind of data set")
