"""Keypoints: what the points of an object are called, how they are joined, and where heatmaps put them.

Letters: D objects, L points of an object, S side of a heatmap.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class Pose:
    """The points of one kind of object.

    Args:
        names: L of them, such as "left_eye".
        mirrored: for each point of a mirrored object, the number of the one it was; empty for the same.
        skeleton: pairs of numbers of points that a line joins in pictures.
    """

    names: tuple[str, ...]
    mirrored: tuple[int, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        count = len(self.names)
        if not count or len(set(self.names)) != count:
            raise AttributeValueError(f"Pose: names is {list(self.names)}; it needs one or more, each another")
        if self.mirrored and sorted(self.mirrored) != list(range(count)):
            raise AttributeValueError(
                f"Pose: mirrored is {list(self.mirrored)}; each of {count} points must stand in it once"
            )
        if any(not 0 <= end < count for pair in self.skeleton for end in pair):
            raise AttributeValueError(f"Pose: skeleton names points beyond 0 to {count - 1}: {list(self.skeleton)}")

    @property
    def order(self) -> list[int]:
        """`mirrored`, written out."""
        return list(self.mirrored or range(len(self.names)))


COCO_PERSON = Pose(
    names=(
        "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
        "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
        "right_ankle",
    ),
    mirrored=(0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15),
    skeleton=(
        (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10),
        (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
    ),
)  # fmt: skip
# Of COCO_PERSON's points: how far annotators differ, as a share of the root of the object's area (cocodataset.org).
COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
)  # fmt: skip


def located(heatmaps: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Where each heatmap is largest: float32 [D, L, 2], (x, y) in the pixels of the boxes.

    A map is enlarged to the pixels of its box by cubic interpolation, and the point is the centre of the largest pixel
    (He et al. 2017, Mask R-CNN, section 5; torchvision's `heatmaps_to_keypoints`).

    Args:
        heatmaps: float32 [D, S, S, L].
        boxes: float32 [D, 4], within the picture.
    """
    points = np.zeros((len(boxes), heatmaps.shape[-1], 2), np.float32)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1)
    for at, (maps, side) in enumerate(zip(heatmaps, sides, strict=True)):
        width, height = (int(extent) for extent in np.ceil(side))
        for point in range(maps.shape[-1]):
            large = cv2.resize(np.ascontiguousarray(maps[..., point]), (width, height), interpolation=cv2.INTER_CUBIC)
            y, x = divmod(int(large.argmax()), width)
            points[at, point] = (x + 0.5) * side[0] / width, (y + 0.5) * side[1] / height
    return points + boxes[:, None, :2]
