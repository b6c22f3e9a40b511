"""What stands around an image classifier when it predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.contract.batch import Batch
from suites.vision.augmentation.pipeline import Transform
from suites.vision.objects import CutObjects, Row
from suites.vision.processor import ImageProcessor
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import LabelledImage


class ClassificationProcessor(CutObjects, ImageProcessor, RecognitionProcessor):
    """Image files to batches, scores to class names; an item is an image, uint8 [H, W, 3].

    Args:
        transforms: those of evaluation.
        class_names: K names.
        min_score: where images have any number of classes: those with this score or more are said; None for the best
            five.
    """

    suite: ClassVar[str] = "classification"
    sample_class = LabelledImage

    def __init__(
        self, transforms: Sequence[Transform], class_names: Sequence[str], min_score: float | None = None
    ) -> None:
        super().__init__(transforms, class_names)
        self._min_score = min_score

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {**super().metadata(), **({} if self._min_score is None else {"min_score": self._min_score})}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each item its best classes with their scores, best first; those from `min_score` on where it is given."""
        if self._min_score is None:
            return super().results(outputs, batch)
        found = []
        for scores in outputs["scores"]:
            order = [k for k in np.argsort(-scores, kind="stable").tolist() if scores[k] >= self._min_score]
            found.append([{"class": self._class_names[k], "score": round(float(scores[k]), 5)} for k in order])
        return found

    def said(self, row: Row, result: list[dict[str, Any]]) -> str:
        """The best class of an object, with its score."""
        return f"{result[0]['class']} {result[0]['score']:.2f}" if result else "no class"

    def shown(self, item: np.ndarray) -> np.ndarray:
        """The image itself."""
        return item
