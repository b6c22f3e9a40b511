"""Telling lines that are upside down: each line is shown both ways, so that any set of upright lines teaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import cv2
import numpy as np

from framework import ops
from framework.data import DataLoader
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.metric import Metric
from suites.ocr.datasets.lines import LineList
from suites.ocr.metrics import ToldDirections
from suites.ocr.models.base import DirectionClassifier
from suites.ocr.pixels import DIRECTION_SIZE, lines_shown
from suites.ocr.problems.base import How, Problem, expect, expect_reading, shuffled
from suites.ocr.processor import DirectionProcessor
from suites.ocr.sample import LineSample
from suites.ocr.settings import EvalData, TrainData


class DirectionProblem(Problem):
    """Of a `DirectionClassifier`.

    Args:
        model: the network.
        how: from which score on a line counts as upside down, `reading.turn_score`.
    """

    train_inputs: tuple[str, ...] = ("turned", "down")
    eval_inputs: ClassVar[tuple[str, ...]] = ("turned",)
    main_metric: ClassVar[str] = "accuracy"

    def __init__(self, model: DirectionClassifier, how: How) -> None:
        how.expect_unset(type(model).__name__, "finding", "loss")
        expect_reading(how, type(model).__name__, "turn_score")
        self._model, self._how = model, how

    def train_loader(self, data: TrainData, dataset: Any, *, seed: int, workers: int) -> DataLoader:
        """Shuffled lines, each both ways."""
        expect(dataset, LineList, type(self._model).__name__)
        return shuffled(data, dataset, collate_both_ways, "lines for their direction", seed=seed, workers=workers)

    def eval_loader(self, data: EvalData, dataset: Any, *, workers: int) -> DataLoader:
        """The lines in order, each both ways."""
        expect(dataset, LineList, type(self._model).__name__)
        return DataLoader(dataset, data.batch_size, workers=workers, collate=collate_both_ways)

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of upright and upside down."""
        logits = self._model(inputs["turned"])
        return {"direction": Loss(ops.mean(ops.cross_entropy(logits, inputs["down"])), count_of(logits))}

    def predictions(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`direction` [N, 2], the probabilities of being upright and upside down."""
        return {"direction": ops.softmax(self._model(inputs["turned"]), axis=-1)}

    def metric(self) -> Metric:
        """Of the two ways of each line."""
        return ToldDirections(self._how.reading.turn_score)

    def processor(self) -> DirectionProcessor:
        """Lines to which way up they are."""
        return DirectionProcessor(self._how.reading.turn_score)


def collate_both_ways(samples: Sequence[LineSample]) -> Batch:
    """N lines as 2 N rows, each as it is and then upside down.

    Returns:
        `turned` float32 [2 N, 48, 192, 3]; `down` int64 [2 N], 1 for upside down; `numbers` of the lines of the rows.
    """
    lines = [line for sample in samples for line in (sample.image, cv2.rotate(sample.image, cv2.ROTATE_180))]
    return {
        "turned": lines_shown(lines, *DIRECTION_SIZE),
        "down": np.tile(np.array([0, 1], np.int64), len(samples)),
        "numbers": [sample.number for sample in samples for _ in range(2)],
    }
