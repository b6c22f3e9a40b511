"""Pascal VOC's mAP (Everingham et al. 2010).

Letters: I images, P predictions, K classes. Predictions are in pixels of the original images.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError
from suites.detection.metrics.base import Evaluator
from suites.detection.sample import GroundTruth
from suites.engine.registry import register
from suites.engine.reporting import Curves, Plot


@register("metric")
class VocEvaluator(Evaluator):
    """Pascal VOC's mAP at one IoU, and `AP/<class>`; objects marked difficult neither count nor punish.

    A prediction matches the object of its class it overlaps most; a second match of an object is an error
    (Everingham et al. 2010). Crowd regions are treated as difficult.

    Args:
        truth: What is compared with.
        iou: Least overlap of a match.
        method: "integral", the area under the precision envelope (VOC 2010 on), or "11point" (VOC 2007).
    """

    main_figure: ClassVar[str] = "mAP"

    def __init__(
        self, truth: GroundTruth, iou: float = 0.5, method: Literal["integral", "11point"] = "integral"
    ) -> None:
        super().__init__(truth)
        if not 0 < iou < 1 or method not in ("integral", "11point"):
            raise AttributeValueError(
                f"VocEvaluator: iou is {iou} and method {method!r}; iou must be in (0, 1), method integral or 11point"
            )
        self._iou = iou
        self._curves: dict[str, tuple[list[float], list[float]]] = {}  # by class
        self._area = area_under if method == "integral" else _area_11point

    def compute(self) -> dict[str, float]:
        """`mAP` over the classes with objects, and each class's AP, 0 to 1."""
        rows = self._predictions()
        figures = {}
        self._curves = {}
        for label, name in enumerate(self._truth.class_names):
            average = self._average_precision(rows[rows[:, 6] == label], label)
            if average is not None:
                figures[f"AP/{name}"] = average
        return {"mAP": float(np.mean(list(figures.values()))), **figures} if figures else {}

    def _average_precision(self, rows: np.ndarray, label: int) -> float | None:
        truth = self._truth
        chosen = truth.classes == label
        ignored = (truth.difficult | truth.crowd)[chosen]
        objects = int((~ignored).sum())
        if not objects:
            return None
        boxes, owners = truth.boxes[chosen], truth.owners()[chosen]
        rows = rows[np.argsort(-rows[:, 5], kind="stable")]
        hits = match_greedily(rows, boxes, owners, ignored, self._iou)
        true = np.cumsum(hits == 1)
        false = np.cumsum(hits == 0)
        recall, precision = true / objects, true / np.maximum(true + false, 1)
        self._curves[truth.class_names[label]] = thinned(recall, precision)
        return self._area(recall, precision)

    def plots(self) -> list[Plot]:
        """Precision over recall of each class."""
        return [Curves(f"Precision of boxes by class, IoU {self._iou:g}", "recall", "precision", self._curves)]


def match_greedily(
    rows: np.ndarray, boxes: np.ndarray, owners: np.ndarray, ignored: np.ndarray, threshold: float
) -> np.ndarray:
    """VOC's matching of one class's predictions [P, 7], best score first, with its objects [T, 4].

    Returns:
        int64 [P]: 1 for a first match, 0 for none or a repeated match, -1 for one with an ignored object.
    """
    hits = np.zeros(len(rows), np.int64)
    taken = np.zeros(len(boxes), bool)
    of_image = {image: np.flatnonzero(owners == image) for image in np.unique(owners)}
    for place, row in enumerate(rows):
        candidates = of_image.get(int(row[0]))
        if candidates is None:
            continue
        overlaps = _overlaps(row[1:5], boxes[candidates])
        best = candidates[int(np.argmax(overlaps))]
        if overlaps.max() < threshold:
            continue
        if ignored[best]:
            hits[place] = -1
        elif not taken[best]:
            hits[place] = 1
            taken[best] = True
    return hits


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """IoU [T] of one box [4] with boxes [T, 4]."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    inner = sides.clip(0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return inner / np.maximum((box[2:] - box[:2]).prod() + areas - inner, 1e-12)


def thinned(recall: np.ndarray, precision: np.ndarray) -> tuple[list[float], list[float]]:
    """A curve [P] at 201 of its points at most, for a plot."""
    kept = np.unique(np.linspace(0, max(len(recall) - 1, 0), min(len(recall), 201)).round().astype(int))
    return recall[kept].tolist(), precision[kept].tolist()


def area_under(recall: np.ndarray, precision: np.ndarray) -> float:
    """Area under the smallest falling curve above precision(recall)."""
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * envelope).sum())


def _area_11point(recall: np.ndarray, precision: np.ndarray) -> float:
    """Mean over recalls 0, 0.1, ... 1 of the best precision at that recall or more."""
    # 1e-9: a recall such as 3/10 must count as reaching the level 0.3 whatever its last bit.
    best = [precision[recall >= level - 1e-9].max(initial=0.0) for level in np.arange(11) / 10]
    return float(np.mean(best))
