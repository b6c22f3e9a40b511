"""WiderEvaluator: the average precision of face detectors as WIDER FACE's evaluation tools define it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from suites.detection.metrics.base import Evaluator
from suites.detection.metrics.voc import area_under, match_greedily, thinned
from suites.detection.sample import GroundTruth
from suites.engine.registry import register
from suites.engine.reporting import Curves, Plot

_PIXEL = np.array([0.0, 0.0, 1.0, 1.0])  # their boxes end on a pixel and hold it


@register("metric")
class WiderEvaluator(Evaluator):
    """Average precision at IoU 0.5 over all valid faces (`AP`) and, where the data set has `subsets`, for each level.

    Figures: `AP`, `AP/easy`, `AP/medium`, `AP/hard`. A face outside of the level neither counts nor punishes; a second
    detection of a face is an error. IoU is taken of boxes whose last pixel belongs to them, as there. Their tools read
    the curve at 1000 scores, this at every score, which moves a figure by about 0.001. They pass over detections in
    images without a face, which here are errors; the benchmark's validation set has no such image.

    Args:
        truth: What is compared with.
        iou: Least overlap of a match.
    """

    main_figure: ClassVar[str] = "AP"

    def __init__(self, truth: GroundTruth, iou: float = 0.5) -> None:
        super().__init__(truth)
        self._iou = iou
        self._curves: dict[str, tuple[list[float], list[float]]] = {}

    def compute(self) -> dict[str, float]:
        """The figures by name, 0 to 1; a level without faces is left out."""
        rows = self._predictions()
        rows = rows[np.argsort(-rows[:, 5], kind="stable")]
        rows[:, 1:5] += _PIXEL
        truth = self._truth
        sets = {"AP": ~truth.crowd} | {f"AP/{level}": mark for level, mark in truth.subsets.items()}
        self._curves = {}
        return {name: self._average_precision(rows, mark, name) for name, mark in sets.items() if mark.any()}

    def plots(self) -> list[Plot]:
        """Precision over recall, of all faces and of each level."""
        return [Curves(f"Precision, IoU {self._iou:g}", "recall", "precision", self._curves)]

    def _average_precision(self, rows: np.ndarray, counted: np.ndarray, name: str) -> float:
        truth = self._truth
        hits = match_greedily(rows, truth.boxes + _PIXEL, truth.owners(), ~counted, self._iou)
        true, false = np.cumsum(hits == 1), np.cumsum(hits == 0)
        recall, precision = true / counted.sum(), true / np.maximum(true + false, 1)
        self._curves[name] = thinned(recall, precision)
        return area_under(recall, precision)
