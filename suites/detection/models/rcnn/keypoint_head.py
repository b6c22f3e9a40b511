"""Keypoint R-CNN's third output: a heatmap of each point of an object (He et al. 2017, arXiv:1703.06870, section 5).

Letters: N batch, R regions, M objects, D detections of an image, I = N * R, L points, S side of a region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.matching import rows_of
from suites.detection.models.base import Detections
from suites.detection.models.pieces import TOGETHER, expect_together, of_detections
from suites.detection.models.rcnn.regions import RegionPool, Regions
from suites.engine.contract.losses import Loss
from suites.engine.registry import register, register_role
from suites.vision.pose import COCO_PERSON, Pose

_POOL = RegionPool(size=14)
_NOT_ASKED = -100  # labels of points that are not learnt


class KeypointHead(nn.Layer):
    """3x3 convolutions with ReLU, a 4x4 transposed one with a channel a point that doubles the size, doubled again.

    Parameters: `convs.I`, `up_weight` [width, 4, 4, L] and `up_bias` [L].

    Args:
        in_channels: of each map; all the same.
        strides: of each map, finest first.
        width: channels of the convolutions.
        convs: how many there are.
        pool: what is read of the maps; a heatmap has four times its size.
        pose: the points, by default COCO's 17 of a person.
        together: detections of an image that it looks at in one go when it predicts; those that are not there cost
            nothing beyond the last one's. Null for all at once, without control flow: for pruning and static 8 bits.
    """

    up_weight: Tensor
    up_bias: Tensor

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        width: int = 512,
        convs: int = 8,
        pool: RegionPool = _POOL,
        pose: Pose = COCO_PERSON,
        together: int | None = TOGETHER,
    ) -> None:
        super().__init__()
        expect_together("KeypointHead", together)
        if width < 1 or convs < 1:
            raise AttributeValueError(f"KeypointHead: width is {width} and convs {convs}; both must be 1 or more")
        self.pool, self.pose = pool, pose
        self._together = together
        self.strides = tuple(strides)
        start = nn.init.Kaiming("normal")
        channels = [in_channels[0], *[width] * (convs - 1)]
        self.convs = nn.LayerList(nn.Conv2d(a, width, 3, initializer=start) for a in channels)
        self.add_parameter("up_weight", (width, 4, 4, len(pose.names)), start)
        self.add_parameter("up_bias", (len(pose.names),), nn.init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """Heatmaps [I, 4S, 4S, L] of regions x [I, S, S, C]."""
        for conv in self.convs:
            x = ops.relu(conv(x))
        x = ops.conv2d_transpose(x, self.up_weight, self.up_bias, stride=2, padding=1)
        return ops.resize_bilinear(x, scale=(2.0, 2.0))

    def losses(self, maps: Sequence[Tensor], regions: Regions, landmarks: Tensor) -> dict[str, Loss]:
        """`loss_keypoint`: cross entropy over the places of a heatmap, mean over the visible points of matched regions.

        Args:
            maps: finest first.
            regions: as many as may be matched.
            landmarks: float32 [N, M, L, 3], (x, y, visible) of the truths.
        """
        side, count = 4 * self.pool.size, len(self.pose.names)
        with no_grad():
            labels = self._labels(regions, landmarks, side)  # [I, L]
            valid = ops.cast(labels >= 0, "float32")
            asked = ops.maximum(ops.sum(valid), 1.0)
            matched = ops.sum(ops.cast(regions.gt_index >= 0, "int64"), axes=(1,))  # [N], rows that come first
        logits = ops.transpose(self(self.pool(maps, self.strides, regions.boxes, matched)), perm=(0, 3, 1, 2))
        logits = ops.reshape(logits, shape=(-1, side * side))  # [I * L, places]
        entropy = ops.cross_entropy(logits, ops.reshape(labels, shape=(-1,)), ignore_index=_NOT_ASKED)
        entropy = ops.reshape(entropy, shape=(-1, count)) * valid
        return {"loss_keypoint": Loss(ops.sum(entropy) / asked, asked)}

    def _labels(self, regions: Regions, landmarks: Tensor, side: int) -> Tensor:
        """int64 [I, L]: the place of each point in its region's heatmap; -100 where there is none to learn."""
        count = len(self.pose.names)
        points = rows_of(ops.flatten(landmarks, start=2, end=3), ops.maximum(regions.gt_index, 0))
        xy, visible = ops.split(ops.reshape(points, shape=(-1, count, 3)), axis=2, sizes=(2, 1))
        low, high = ops.split(ops.reshape(regions.boxes, shape=(-1, 1, 4)), axis=2, sizes=(2, 2))
        place = ops.floor((xy - low) * (float(side) / ops.maximum(high - low, 1e-3)))
        last = ops.full_like(place, value=side - 1.0)
        place = ops.where(ops.equal(xy, high + xy * 0.0), last, place)  # the far border belongs to the last cell
        inside = ops.all((place >= 0.0) & (place < float(side)), axes=(2,))
        matched = ops.reshape(regions.gt_index >= 0, shape=(-1, 1))
        learnt = inside & ops.squeeze(visible > 0.0, axis=2) & matched
        column, row = ops.split(ops.cast(ops.clip(place, min=0.0, max=side - 1.0), "int64"), axis=2, sizes=(1, 1))
        number = ops.squeeze(row * side + column, axis=2)
        return ops.where(learnt, number, ops.full_like(number, value=_NOT_ASKED))

    def detect(self, maps: Sequence[Tensor], found: Detections, rows: int) -> Detections:
        """The detections with heatmaps float32 [N, D, 4S, 4S, L]; `rows` is D."""
        shape = (4 * self.pool.size, 4 * self.pool.size, len(self.pose.names))

        def look(boxes: Tensor, _: Tensor, counts: Tensor) -> Tensor:
            return self(self.pool(maps, self.strides, boxes, counts))

        return replace(found, heatmaps=of_detections(look, shape, found, rows, self._together))


register_role("keypoint_head", KeypointHead, supplied=("in_channels", "strides"), doc="Regions to heatmaps of points.")
register("keypoint_head")(KeypointHead)
