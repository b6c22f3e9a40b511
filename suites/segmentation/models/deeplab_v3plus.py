"""DeepLabV3+: atrous spatial pyramid pooling, and a decoder that sharpens it (Chen et al. 2018, arXiv:1802.02611).

Letters: N batch, H W image size, h w size of the coarse map, C channels in, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework import nn, ops
from framework.tensor import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import check_classes, check_maps, classifier, separable, whole_image_rule
from suites.vision.backbones import Backbone


@register("segmenter")
class DeepLabV3Plus(Segmenter):
    """Backbone, pyramid pooling on its last map, decoder with its first map; logits at the first map's stride.

    Args:
        backbone: gives two maps: a fine one (stride 4 in the paper) and the last, coarse one (8 or 16).
        num_classes: K.
        rates: dilations of the pyramid's 3x3 convolutions; (6, 12, 18) at stride 16, (12, 24, 36) at stride 8.
        channels: of the pyramid's branches and of the decoder.
        low_channels: to which the fine map is reduced.
        dropout: share of the pyramid's output that is dropped in training.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        rates: tuple[int, ...] = (6, 12, 18),
        channels: int = 256,
        low_channels: int = 48,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("DeepLabV3Plus", num_classes)
        check_maps("DeepLabV3Plus", backbone, 2, "two, a fine and a coarse one: out_strides: [4, 16]")
        self.backbone = backbone
        low, high = backbone.channels
        self.pyramid = _Pyramid(high, channels, rates)
        self.dropout = nn.Dropout(dropout)
        self.low = nn.ConvBNAct(low, low_channels, 1)
        self.decoder = nn.Sequential(
            separable(channels + low_channels, channels),
            separable(channels, channels),
            classifier(channels, num_classes),
        )

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The pyramid's pooled branch has one pixel an image."""
        yield from whole_image_rule(part, "DeepLabV3Plus")

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/4), ceil(W/4), K] where the fine map has stride 4."""
        fine, coarse = self.backbone(images)
        context = ops.resize_bilinear(self.dropout(self.pyramid(coarse)), fine)
        return [self.decoder(ops.concat([context, self.low(fine)], axis=3))]


class _Pyramid(nn.Layer):
    """Atrous spatial pyramid pooling.  x: [N, h, w, C]; y: [N, h, w, channels].

    A 1x1 convolution, a separable 3x3 one for each rate and the mean of the whole map, side by side, merged by a 1x1.
    """

    def __init__(self, in_channels: int, channels: int, rates: tuple[int, ...]) -> None:
        super().__init__()
        branches: list[nn.Layer] = [nn.ConvBNAct(in_channels, channels, 1)]
        branches += [separable(in_channels, channels, rate) for rate in rates]
        self.branches = nn.LayerList(branches)
        self.pooled = nn.ConvBNAct(in_channels, channels, 1)
        self.merge = nn.ConvBNAct(channels * (len(rates) + 2), channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        maps = [branch(x) for branch in self.branches]
        pooled = self.pooled(ops.mean(x, axes=(1, 2), keepdims=True))
        return self.merge(ops.concat([*maps, ops.broadcast_like(pooled, maps[0])], axis=3))
