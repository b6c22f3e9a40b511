"""What every network of points offers.

Letters: N objects, H W image size, s stride of the heatmaps, L points.
"""

from __future__ import annotations

from typing import ClassVar

from framework import nn
from framework.tensors import Tensor
from suites.engine.registry import register_role
from suites.vision.pose import COCO_PERSON, FACE_68, FACE_POINTS, MPII_PERSON, Pose

KNOWN_POSES = {"coco_person": COCO_PERSON, "face_5": FACE_POINTS, "face_68": FACE_68, "mpii_person": MPII_PERSON}


class PoseModel(nn.Layer):
    """Crops of objects [N, H, W, 3] to heatmaps [N, H/s, W/s, L].

    Attributes:
        pose: what the L points are.
        stride: s.
        multiple: what H and W have to be multiples of, so that the maps end where the crops do.
        gives_points: whether it has `points` of its own, in place of heatmaps that are read. It is not trained then.
    """

    pose: Pose
    stride: int
    multiple: int = 1
    gives_points: ClassVar[bool] = False

    def points(self, images: Tensor) -> Tensor:
        """Points [N, L, 3] of images [N, H, W, 3]: x, y in their pixels, and a score."""
        raise NotImplementedError(f"{type(self).__name__} gives heatmaps")


register_role("pose_model", PoseModel, doc="A network of points.")
