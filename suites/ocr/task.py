"""The task of text: what the engine calls to build, train, evaluate and draw a network that finds or reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from framework.data import DataLoader
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.engine.config import Config
from suites.engine.contract.batch import Batch, opened, readable
from suites.engine.contract.capabilities import Kept
from suites.engine.contract.data_task import DataTask
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.ocr.datasets.base import TextDataset
from suites.ocr.decoding import Language
from suites.ocr.finding import Finding
from suites.ocr.losses import MapLoss
from suites.ocr.models.base import DirectionClassifier, TextDetector, TextModel, TextRecogniser
from suites.ocr.models.reader import TextReader
from suites.ocr.page import Reading
from suites.ocr.problems.base import How, Problem
from suites.ocr.problems.direction import DirectionProblem
from suites.ocr.problems.finding import FindingProblem
from suites.ocr.problems.lines import LineProblem
from suites.ocr.problems.page import PageProblem
from suites.ocr.processor import OcrProcessor
from suites.ocr.settings import EvalData, TrainData

_log = logging.getLogger(__name__)
_ALPHABETS = tuple(f"model.{part}alphabet" for part in ("", "body.", "recogniser.", "recogniser.body."))


@register("task", "ocr")
class OcrTask(DataTask[TrainData, EvalData]):
    """A network of text with its data.

    Args:
        model: the network; its kind says what is asked of it.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        finding: how text is found in a detector's map.
        reading: how pictures and lines are shown to the networks.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/hmean`.
        loss: what a detector minimises.
        language: what `reading.beam` read of its files, where it is read already.
    """

    processor_class = OcrProcessor
    model: TextModel

    def __init__(
        self,
        model: TextModel,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        finding: Finding | None = None,
        reading: Reading | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
        loss: MapLoss | None = None,
        language: Language | None = None,
    ) -> None:
        super().__init__(train, eval, more_eval)
        self.model = model
        self._problem = _problem_of(model, How(finding, reading or Reading(), loss, language))
        self.train_inputs, self.eval_inputs = self._problem.train_inputs, self._problem.eval_inputs
        self.main_metric = self._problem.main_metric

    @classmethod
    def from_kept(cls, config: Config, kept: Kept) -> Self:
        """The task of a run, with the alphabet and the language that it keeps; ConfigError for another alphabet."""
        assert isinstance(kept.processor, OcrProcessor)
        read = kept.processor.read_of_files()
        places = [place for place in _ALPHABETS if read is not None and config.has(place)]
        for place in places:
            if not kept.holds(place):
                raise ConfigError(f"{place}: the classes of a trained network are those of its own; leave it as it is")
        if read is None:
            return cls.from_config(config)
        alphabet, language = read
        own = config.with_texts(dict.fromkeys(places, f"={''.join(alphabet.characters)}"))
        return cls.from_config(own, **({"language": language} if kept.holds("reading.beam") else {}))

    @cached_property
    def _eval_set(self) -> TextDataset:
        return self._opened(self.eval_data.dataset, "evaluation set")

    def _opened(self, given: Any, what: str) -> TextDataset:
        dataset: TextDataset = opened(given)
        for line in self._problem.check(dataset, what):
            _log.warning("%s", line)
        return dataset

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled, augmented batches."""
        data = self.train_data
        dataset = self._opened(data.dataset, "training set")
        return self._problem.train_loader(data, dataset, seed=seed, workers=workers)

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order."""
        return self._problem.eval_loader(self.eval_data, self._eval_set, workers=workers)

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """What a batch of evaluation is predicted on by."""
        return self._problem.parts(batch)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name."""
        return self._problem.losses(inputs)

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the network gives."""
        return self._problem.predictions(inputs)

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return self._problem.metric()

    def processor(self) -> OcrProcessor:
        """What stands around the network."""
        return self._problem.processor()

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first pictures of the evaluation set that can be read."""
        return readable(range(len(self._eval_set)), self.example, count)

    def example(self, index: int) -> tuple[str, Any]:
        """A picture of the evaluation set."""
        dataset = self._eval_set
        return dataset.name_of(index).rpartition("/")[2], dataset.image(index)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """What was left out when the set was opened."""
        tally.merge(getattr(dataset, "dataset", dataset).skipped().state())

    def names(self, batch: Batch) -> list[str]:
        """What messages call the pictures of a batch."""
        return [f"picture {number}" for number in batch.get("numbers", ())]


def _problem_of(model: TextModel, how: How) -> Problem:
    """What is asked of a network."""
    if isinstance(model, TextReader):
        return PageProblem(model, how)
    if isinstance(model, TextDetector):
        return FindingProblem(model, how)
    if isinstance(model, TextRecogniser):
        return LineProblem(model, how)
    if isinstance(model, DirectionClassifier):
        return DirectionProblem(model, how)
    raise ConfigError(f"{type(model).__name__}: finds, turns and reads no text, so there is no task for it")
