"""Heatmaps of points: SimpleBaseline (Xiao et al. 2018, arXiv:1804.06208) and HRNet (Sun et al. 2019, 1902.09212).

Letters: N objects, H W image size, s stride of the heatmaps, L points.
"""

from __future__ import annotations

from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import start_from
from suites.keypoints.models.base import KNOWN_POSES, PoseModel
from suites.vision.backbones.base import Backbone
from suites.vision.pose import Pose


@register("pose_model", exclusive=(("points", "pose"),))
class HeatmapPose(PoseModel):
    """A backbone, transposed convolutions that each double the map, a 1x1 convolution with a channel a point.

    Three transposed convolutions on a ResNet of stride 32 are SimpleBaseline; none on HRNet's map of stride 4 is HRNet.

    Args:
        backbone: its last map is taken.
        deconvs: how many transposed 4x4 convolutions with batch norm and ReLU follow.
        width: their channels.
        points: the pose of a known kind of object: "coco_person", "face_5" or "face_68".
        pose: the pose of another one, in place of `points`.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    def __init__(
        self,
        backbone: Backbone,
        deconvs: int = 3,
        width: int = 256,
        points: Literal["coco_person", "face_5", "face_68", "mpii_person"] = "coco_person",
        pose: Pose | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if deconvs < 0 or width < 1 or backbone.strides[-1] % 2**deconvs:
            raise AttributeValueError(
                f"HeatmapPose: deconvs is {deconvs} and width {width} on a map of stride {backbone.strides[-1]}; "
                "deconvs is 0 or more, width 1 or more, and the map's stride must be a multiple of 2^deconvs"
            )
        self.pose = pose or KNOWN_POSES[points]
        self.multiple = backbone.strides[-1]
        self.stride = self.multiple // 2**deconvs
        self.backbone = backbone
        channels = backbone.channels[-1]
        self.ups = nn.LayerList(_Up(channels if k == 0 else width, width) for k in range(deconvs))
        self.out = nn.Conv2d(width if deconvs else channels, len(self.pose.names), 1, initializer=nn.init.Normal(0.001))
        start_from(self, pretrained)

    def forward(self, images: Tensor) -> Tensor:
        """Heatmaps [N, H/s, W/s, L] of images [N, H, W, 3]."""
        x = self.backbone(images)[-1]
        for up in self.ups:
            x = up(x)
        return self.out(x)


class _Up(nn.Layer):
    """A transposed 4x4 convolution of stride 2, batch norm, ReLU.  x: [N, H, W, C], y: [N, 2H, 2W, K]."""

    weight: Tensor

    def __init__(self, in_channels: int, out: int) -> None:
        super().__init__()
        self.add_parameter("weight", (in_channels, 4, 4, out), nn.init.Normal(0.001))
        self.norm = nn.BatchNorm(out)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return ops.relu(self.norm(ops.conv2d_transpose(x, self.weight, stride=2, padding=1)))
