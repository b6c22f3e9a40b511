"""What stands around a network of points when it predicts: a picture of one object, or one in a picture, to its points.

Letters: N objects, L points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch
from suites.keypoints.decoding import Reader
from suites.keypoints.sample import PoseSample
from suites.keypoints.visualize import draw_points
from suites.vision.augmentation.pipeline import Transform
from suites.vision.drawing import enlarged
from suites.vision.objects import Row, draw_box
from suites.vision.pose import Pose
from suites.vision.processor import ImageProcessor
from suites.vision.structures import Boxes, Instances

_SURE = 0.2  # the score of a point from which on it is drawn


class ObjectIn(NamedTuple):
    """An object in a picture: uint8 RGB [H, W, 3], and its box x1, y1, x2, y2."""

    image: np.ndarray
    box: tuple[float, float, float, float]


class PoseProcessor(ImageProcessor):
    """Pictures of one object each, which its box fills, to points; or objects that a detector found in pictures.

    Args:
        transforms: those of evaluation.
        class_names: one.
        pose: what the points are.
        reader: how points are read from heatmaps.
    """

    suite: ClassVar[str] = "keypoints"

    def __init__(
        self,
        transforms: Sequence[Transform],
        class_names: Sequence[str],
        pose: Pose | dict[str, Any],
        reader: Reader | dict[str, Any],
    ) -> None:
        super().__init__(transforms, class_names)
        self._pose: Pose = build_value(pose, Pose, suite=self.suite) if isinstance(pose, dict) else pose
        self._reader: Reader = build_value(reader, Reader, suite=self.suite) if isinstance(reader, dict) else reader

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        pose, reader = plain(self._pose, suite=self.suite), plain(self._reader, suite=self.suite)
        return {**super().metadata(), "pose": pose, "reader": reader}

    def item(self, given: Any) -> np.ndarray | ObjectIn:
        """A picture, or an object in one."""
        return given if isinstance(given, ObjectIn) else super().item(given)

    def sample_of(self, item: np.ndarray | ObjectIn, number: int) -> PoseSample:
        """A picture [H, W, 3] whose box is all of it, or an object in one."""
        image, (x1, y1, x2, y2) = item if isinstance(item, ObjectIn) else (item, (0, 0, *item.shape[1::-1]))
        box = Boxes(np.array([[x1, y1, x2, y2]], np.float32))
        sides = float(x2 - x1), float(y2 - y1)
        return PoseSample(image=image, instances=Instances(box, np.zeros(1, np.int64)), number=number, sides=sides)

    def objects_in(self, item: np.ndarray, rows: Sequence[Row]) -> list[ObjectIn]:
        """The objects of a detector; their points are in pixels of the whole picture."""
        return [ObjectIn(item, tuple(row["box"])) for row in rows]

    def draw_objects(self, item: np.ndarray, rows: Sequence[Row], results: Sequence[dict[str, Any]]) -> np.ndarray:
        """The picture with the points and skeletons of all objects."""
        canvas, factor = enlarged(item)
        for row, result in zip(rows, results, strict=True):
            draw_box(canvas, row["box"], factor, f"{row.get('class', '')} {row.get('score', 1.0):.2f}".strip())
            self._draw_points(canvas, factor, result)
        return canvas

    def collate(self, samples: Sequence[PoseSample]) -> Batch:
        """The batch."""
        return {"images": np.stack([s.image for s in samples]), "matrices": np.stack([s.matrix for s in samples])}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """For each picture `keypoints`, {name: [x, y, score]} in its pixels."""
        found = []
        for places, heights in zip(*self._reader.read(outputs, batch["matrices"]), strict=True):
            rows = zip(self._pose.names, places, heights, strict=True)
            keypoints = {name: [round(float(x), 2), round(float(y), 2), round(float(s), 4)] for name, (x, y), s in rows}
            found.append({"keypoints": keypoints})
        return found

    def draw(self, item: np.ndarray, result: dict[str, Any]) -> np.ndarray:
        """The picture with the points that are sure enough, and the skeleton between them."""
        canvas, factor = enlarged(item)
        self._draw_points(canvas, factor, result)
        return canvas

    def _draw_points(self, canvas: np.ndarray, factor: int, result: dict[str, Any]) -> None:
        draw_points(canvas, factor, np.array(list(result["keypoints"].values())), self._pose.skeleton, _SURE)
