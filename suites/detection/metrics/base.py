"""What all figures of detection have in common: predictions are gathered image by image.

Letters: I images, P predictions, K classes. Predictions are in pixels of the original images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.detection.metrics.mistakes import Mistakes
from suites.detection.sample import GroundTruth
from suites.engine.registry import register_role
from suites.engine.reporting import Plot
from suites.vision.structures import Instances


class Evaluator(ABC):
    """Collects predictions image by image, then compares them with the ground truth.

    Attributes:
        main_figure: the figure that decides which weights are best; higher is better.

    Every image of the ground truth must be added, with empty arrays where nothing was found, so that a loader
    that drops images cannot go unnoticed.
    """

    main_figure: ClassVar[str]

    def __init__(self, truth: GroundTruth) -> None:
        if not len(truth.boxes):
            raise DataError(
                f"{type(self).__name__}: the ground truth has {len(truth.image_ids)} images but no box, so no figure "
                "is defined; check the data set's classes and annotations"
            )
        self._truth = truth
        self._index = {int(image_id): at for at, image_id in enumerate(truth.image_ids)}
        self._seen: set[int] = set()
        self._rows: list[np.ndarray] = []
        self._compared: tuple[object, Mistakes] | None = None  # for which score and predictions, and what came of it
        self._points: list[np.ndarray] = []  # of each of `_rows`, its keypoints [p, L, 2], if it has any
        self._codes: list[list[bytes]] = []  # of each of `_rows`, the run-length codes of its masks, if it has any

    def add(self, image_id: int, found: Instances) -> None:
        """Adds the predictions of one image, in pixels of the original.

        Raises:
            DataError: The image is not in the ground truth, was added before, or a class is none of the K.
        """
        who = type(self).__name__
        at = self._index.get(int(image_id))
        if at is None or at in self._seen:
            problem = "is not in the ground truth" if at is None else "was added already"
            raise DataError(f"{who}: image {image_id} {problem}")
        classes = len(self._truth.class_names)
        pred_classes = found.classes
        if len(pred_classes) and not (pred_classes.min() >= 0 and pred_classes.max() < classes):
            raise DataError(
                f"{who}: image {image_id} has classes {pred_classes.min()} to {pred_classes.max()}, but there "
                f"are {classes}, 0 to {classes - 1}"
            )
        self._seen.add(at)
        columns = [np.full(len(found), at), found.boxes.array.astype(np.float64), found.scores, pred_classes]
        self._rows.append(np.column_stack(columns))
        self._codes.append([] if found.masks is None else [code["counts"] for code in found.masks.codes()])
        self._points.append(_no_points() if found.keypoints is None else found.keypoints[..., :2])

    def state(self) -> dict[str, Any]:
        """What was added: `images` int64 [S], their places in the truth; `rows` [P, 7], see `_predictions`; `masks`,
        `points`.

        Masks are P texts, pycocotools' run-length codes, points [P, L, 2]; none where none were added.
        """
        images = np.array(sorted(self._seen), np.int64)
        masks = [code.decode() for code in self._all_codes()]
        return {"images": images, "rows": self._all_rows(), "masks": masks, "points": self._all_points()}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds what another evaluator of the same truth has seen.

        Raises:
            DataError: both have seen an image.
        """
        images = set(np.asarray(state["images"]).tolist())
        if twice := images & self._seen:
            image_id = int(self._truth.image_ids[min(twice)])
            raise DataError(f"{type(self).__name__}: image {image_id} was added already; merge parts that share none")
        self._seen |= images
        self._rows.append(np.asarray(state["rows"]))
        self._codes.append([code.encode() for code in state["masks"]])
        self._points.append(np.asarray(state["points"]))

    def _all_rows(self) -> np.ndarray:
        """Rows in the order of the images, whatever the order in which these were added."""
        rows = np.concatenate([np.zeros((0, 7)), *self._rows])
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def _all_codes(self) -> list[bytes]:
        """The masks of `_all_rows`, none where predictions came without."""
        codes = [code for codes in self._codes for code in codes]
        rows = np.concatenate([np.zeros((0, 7)), *self._rows])
        if len(codes) not in (0, len(rows)):
            raise DataError(
                f"{type(self).__name__}: {len(codes)} of {len(rows)} predictions have masks; all or none must"
            )
        return [codes[at] for at in np.argsort(rows[:, 0], kind="stable")] if codes else []

    def _all_points(self) -> np.ndarray:
        """The keypoints [P, L, 2] of `_all_rows`; none where predictions came without."""
        points = [each for each in self._points if len(each)]
        rows = np.concatenate([np.zeros((0, 7)), *self._rows])
        if not points:
            return _no_points()
        joined = np.concatenate(points)
        if len(joined) != len(rows):
            raise DataError(
                f"{type(self).__name__}: {len(joined)} of {len(rows)} predictions have keypoints; all or none must"
            )
        return joined[np.argsort(rows[:, 0], kind="stable")]

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """The figures by name; one that is not defined, such as AP of a class without objects, is left out."""

    def plots(self) -> Sequence[Plot]:
        """Plots of what `compute` found last; by default none."""
        return ()

    def mistakes(self, min_score: float) -> Mistakes:
        """What the predictions of a score or more took for what."""
        key = min_score, len(self._rows), len(self._seen)
        if self._compared is None or self._compared[0] != key:
            self._compared = key, Mistakes(self._truth, self._all_rows(), self._all_codes(), min_score)
        return self._compared[1]

    def _predictions(self) -> np.ndarray:
        """All rows [P, 7]: index of the image, x1, y1, x2, y2, score, class."""
        total = len(self._truth.image_ids)
        if len(self._seen) != total:
            raise DataError(
                f"{type(self).__name__}: {len(self._seen)} of {total} images were added; add all of them, with empty "
                "arrays where nothing was found (does the loader drop its last batch?)"
            )
        return self._all_rows()


def _no_points() -> np.ndarray:
    return np.zeros((0, 0, 2), np.float32)


register_role("metric", Evaluator, supplied=("truth",), doc="The figures of an evaluation.")
