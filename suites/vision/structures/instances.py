"""Instances: the objects of one picture, as annotated or as predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from framework.errors import DataError, ShapeError
from suites.vision.geometry import Move, Placement
from suites.vision.pose import Pose
from suites.vision.structures.boxes import Boxes
from suites.vision.structures.masks import Masks


@dataclass(frozen=True)
class Instances:
    """M objects of one picture; every field has one entry an object.

    Attributes:
        boxes: where they are.
        classes: int64 [M], from 0 to K - 1.
        scores: float32 [M]: how sure a prediction is; of annotations their weight, 1, less after `Mixup`.
        difficult: bool [M], VOC's flag: learnt, but neither asked for nor punished in VOC's figures.
        crowd: bool [M], COCO's `iscrowd`: a region of many objects, never a training target.
        masks: their shapes, if there are any.
        keypoints: float32 [M, P, 3] (x, y, visible), if there are any; visible is 0 unlabelled, 1 hidden, 2 seen, or 0
            to 1, how sure a prediction is that a point is to be seen.
        pose: what the keypoints are, which says those that change places in a mirror.

    Raises:
        ShapeError: the fields differ in length.
    """

    boxes: Boxes
    classes: np.ndarray
    scores: np.ndarray = field(default=None)  # type: ignore[arg-type]
    difficult: np.ndarray = field(default=None)  # type: ignore[arg-type]
    crowd: np.ndarray = field(default=None)  # type: ignore[arg-type]
    masks: Masks | None = None
    keypoints: np.ndarray | None = None
    pose: Pose | None = None

    def __post_init__(self) -> None:
        count = len(self.boxes)
        defaults = {"scores": np.ones(count, np.float32), "difficult": np.zeros(count, bool)}
        for name, value in (defaults | {"crowd": np.zeros(count, bool)}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        lengths = {name: len(value) for name, value in self._present().items()}
        if len(set(lengths.values())) > 1:
            raise ShapeError(f"Instances: the fields differ in length: {lengths}")

    @classmethod
    def none(cls) -> Instances:
        """No objects."""
        return cls(Boxes.none(), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Instances]) -> Instances:
        """The objects of all `parts`; a field that one of them lacks is left out, and so is a pose that differs."""
        shared = [name for name in _COLUMNS if all(getattr(part, name) is not None for part in parts)]
        values: dict[str, Any] = {name: _joined([getattr(part, name) for part in parts]) for name in shared}
        poses = {part.pose for part in parts}
        return cls(**values, pose=poses.pop() if len(poses) == 1 else None)

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, keep: np.ndarray) -> Instances:
        """The objects that `keep` (bool or indices) selects."""
        chosen: dict[str, Any] = {name: value[keep] for name, value in self._present().items()}
        return replace(self, **chosen)

    def moved(self, by: Move) -> Instances:
        """The objects after a step of geometry; those outside of the picture stay, see `inside`."""
        moved = self.placed(by.step)
        return replace(moved, masks=None if self.masks is None else self.masks.moved(by))

    def placed(self, placement: Placement) -> Instances:
        """The objects without masks where `placement` puts them; a mirror exchanges the points of left and right.

        Raises:
            DataError: it mirrors points of which nothing says what they are.
        """
        points = self.keypoints
        if points is not None and placement.mirrors:
            points = self._exchanged(points)
        if points is not None:
            points = np.concatenate([placement.points(points[..., :2]), points[..., 2:]], axis=-1).astype(np.float32)
        return replace(self, boxes=self.boxes.placed(placement), masks=None, keypoints=points)

    def warped(self, matrix: np.ndarray, size: tuple[int, int]) -> Instances:
        """The objects of a picture of `size` (H, W) after an affine map [2, 3] of pixel centres.

        A box becomes the least one around its corners, or around its mask where something of that is left in sight.
        """
        boxes = self.boxes.array.astype(np.float64)
        corners = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
        moved = _mapped(corners, matrix)
        array = np.concatenate([moved.min(axis=1), moved.max(axis=1)], axis=1).astype(self.boxes.array.dtype)
        masks = None
        if self.masks is not None and len(self):
            masks = self.masks.warped(matrix, size)
            array = np.where((masks.areas() > 0)[:, None], masks.boxes().array, array).astype(array.dtype)
        points = self.keypoints
        if points is not None and np.linalg.det(matrix[:, :2]) < 0:
            points = self._exchanged(points)
        if points is not None:
            points = np.concatenate([_mapped(points[..., :2], matrix), points[..., 2:]], axis=-1).astype(np.float32)
        return replace(self, boxes=Boxes(array), masks=self.masks if masks is None else masks, keypoints=points)

    def clipped(self, size: tuple[int, int]) -> Instances:
        """The objects with their boxes cut to a picture of `size` (H, W)."""
        return replace(self, boxes=self.boxes.clipped(size))

    def _exchanged(self, points: np.ndarray) -> np.ndarray:
        """Points [M, P, 3] of left and right under each other's names."""
        if self.pose is None:
            if not len(points):
                return points
            raise DataError(
                "Instances: a mirror exchanges the points of left and right, and nothing says which of "
                f"{points.shape[1]} points these are: give the data set their pairs, or take the flip away"
            )
        if len(self.pose.names) != points.shape[1]:
            count = len(self.pose.names)
            raise ShapeError(f"Instances: objects have {points.shape[1]} points, but their pose names {count}")
        return points[:, self.pose.order]

    def _present(self) -> dict[str, Boxes | Masks | np.ndarray]:
        values = {name: getattr(self, name) for name in _COLUMNS}
        return {name: value for name, value in values.items() if value is not None}


_COLUMNS = tuple(f.name for f in fields(Instances) if f.name != "pose")


def _mapped(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points (x, y), whose pixels have their centres at halves, by a map of whole numbers of pixels."""
    return (points - 0.5) @ matrix[:, :2].T + matrix[:, 2] + 0.5


def _joined(group: list[Any]) -> Any:
    first = group[0]
    return np.concatenate(group) if isinstance(first, np.ndarray) else type(first).joined(group)
