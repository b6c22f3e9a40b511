"""Mask R-CNN's third output: the shape of each object (He et al. 2017, arXiv:1703.06870).

Letters: N batch, R regions an image, D detections an image, C channels, S side of a resampled region, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models.base import Detections, MaskTargets
from suites.detection.models.pieces import TOGETHER, expect_together, of_detections
from suites.detection.models.rcnn.regions import RegionPool, Regions
from suites.engine.contract.losses import Loss
from suites.engine.registry import register, register_role

_POOL = RegionPool(size=14)


class MaskHead(nn.Layer):
    """3x3 convolutions with ReLU, a 2x2 transposed one that doubles the size, and a 1x1 one with a channel a class.

    Only the channel of a region's class is computed: the others have no part in loss or result.
    Parameters: `convs.I`, `up_weight`, `up_bias`, `out_weight` [K, width] and `out_bias` [K].

    Args:
        in_channels: of each map; all the same.
        strides: of each map, finest first.
        num_classes: K.
        width: channels of the convolutions.
        convs: how many there are.
        pool: what is read of the maps; a mask has twice its size.
        together: detections of an image that it looks at in one go when it predicts, as of `KeypointHead`.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        width: int = 256,
        convs: int = 4,
        pool: RegionPool = _POOL,
        together: int | None = TOGETHER,
    ) -> None:
        super().__init__()
        expect_together("MaskHead", together)
        if width < 1 or convs < 0:
            raise AttributeValueError(f"MaskHead: width is {width} and convs {convs}; they must be positive")
        self.pool = pool
        self.strides = tuple(strides)
        self.width = width
        self._together = together
        start = nn.init.Kaiming("normal")
        channels = [in_channels[0], *[width] * convs]
        self.convs = nn.LayerList(nn.Conv2d(a, width, 3, initializer=start) for a in channels[:-1])
        self.add_parameter("up_weight", (channels[-1], 2, 2, width), start)
        self.add_parameter("up_bias", (width,), nn.init.Constant(0.0))
        self.add_parameter("out_weight", (num_classes, width), nn.init.Normal(0.001))
        self.add_parameter("out_bias", (num_classes,), nn.init.Constant(0.0))

    up_weight: Tensor
    up_bias: Tensor
    out_weight: Tensor
    out_bias: Tensor

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Logits [I, 2S, 2S] of regions x [I, S, S, C] for their classes int64 [I]."""
        for conv in self.convs:
            x = ops.relu(conv(x))
        x = ops.relu(ops.conv2d_transpose(x, self.up_weight, self.up_bias, stride=2))
        side = 2 * self.pool.size
        pixels = ops.flatten(x, start=1, end=2)  # [I, 4SS, width]
        weight = ops.expand_dims(ops.gather(self.out_weight, classes), axis=2)  # [I, width, 1]
        bias = ops.expand_dims(ops.gather(ops.expand_dims(self.out_bias, axis=1), classes), axis=2)  # [I, 1, 1]
        return ops.reshape(ops.matmul(pixels, weight) + bias, shape=(-1, side, side))

    def losses(self, maps: Sequence[Tensor], regions: Regions, masks: MaskTargets, sizes: Tensor) -> dict[str, Loss]:
        """`loss_mask`: binary cross entropy, mean over the pixels of matched regions.

        Args:
            maps: finest first.
            regions: as many as may be matched.
            masks: the truths' shapes.
            sizes: int64 [N, 2], the true (H, W) of the images that the shapes are of.
        """
        with no_grad():
            positive = ops.reshape(ops.cast(regions.gt_index >= 0, "float32"), shape=(-1,))
            matched = ops.sum(ops.cast(regions.gt_index >= 0, "int64"), axes=(1,))  # [N], rows that come first
            side = 2 * self.pool.size
            gt_masks = ops.crop_masks(masks.runs, masks.offsets, regions.boxes, regions.gt_index, sizes, size=side)
            gt_masks = ops.reshape(gt_masks, shape=(-1, side, side))
            classes = ops.reshape(regions.classes, shape=(-1,))
            count = ops.maximum(ops.sum(positive), 1.0)
        logits = self(self.pool(maps, self.strides, regions.boxes, matched), classes)
        entropy = ops.mean(ops.sigmoid_cross_entropy(logits, gt_masks), axes=(1, 2))
        return {"loss_mask": Loss(ops.sum(entropy * positive) / count, count)}

    def detect(self, maps: Sequence[Tensor], found: Detections, rows: int) -> Detections:
        """The detections with their masks float32 [N, D, 2S, 2S], 0 to 1; `rows` is D."""

        def look(boxes: Tensor, classes: Tensor, counts: Tensor) -> Tensor:
            return ops.sigmoid(self(self.pool(maps, self.strides, boxes, counts), ops.reshape(classes, shape=(-1,))))

        shape = (2 * self.pool.size, 2 * self.pool.size)
        return replace(found, masks=of_detections(look, shape, found, rows, self._together))


register_role(
    "mask_head", MaskHead, supplied=("in_channels", "strides", "num_classes"), doc="Feature maps and regions to shapes."
)
register("mask_head")(MaskHead)
