"""DeepLabV3+: atrous spatial pyramid pooling, and a decoder that sharpens it (Chen et al. 2018, arXiv:1802.02611).

Letters: N batch, H W image size, h w size of the coarse map, C channels in, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensor import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.segmentation.models import openmmlab_names
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import (
    Head,
    check_classes,
    check_maps,
    classifier,
    separable,
    stage_ends,
    walk_with,
    whole_image_rule,
)
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
        merge_kernel: side of the convolution that merges the pyramid's branches; 3 in MMSegmentation, whose weights
            want it.
        aux_channels: of a second head, on the stage before the last.
        aux_weight: of the second head's loss, 0.4 in MMSegmentation; 0 for no such head. Else the backbone is made of
            blocks.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        rates: tuple[int, ...] = (6, 12, 18),
        channels: int = 256,
        low_channels: int = 48,
        dropout: float = 0.1,
        merge_kernel: int = 1,
        aux_channels: int = 256,
        aux_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("DeepLabV3Plus", num_classes)
        check_maps("DeepLabV3Plus", backbone, 2, "two, a fine and a coarse one: out_strides: [4, 16]")
        if merge_kernel not in (1, 3) or aux_weight < 0:
            raise AttributeValueError(
                f"DeepLabV3Plus: merge_kernel is {merge_kernel} and aux_weight {aux_weight}; needed are 1 or 3 and a "
                "weight of 0 or more"
            )
        self.backbone = backbone
        low, high = backbone.channels
        self.pyramid = _Pyramid(high, channels, rates, merge_kernel)
        self.dropout = nn.Dropout(dropout)
        self.low = nn.ConvBNAct(low, low_channels, 1)
        self.decoder = nn.Sequential(
            separable(channels + low_channels, channels),
            separable(channels, channels),
            classifier(channels, num_classes),
        )
        self.aux: nn.Layer | None = None
        if aux_weight:
            self._aux_at = stage_ends(backbone)[-2]
            self.aux = Head(self._aux_at.channels, aux_channels, num_classes, dropout=dropout)
            self.loss_weights = (1.0, aux_weight)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifiers; a file without a second head leaves that new."""
        return (r"^decoder\.2\.", r"^aux\.")

    @property
    def schemes(self) -> tuple[str, ...]:
        """MMSegmentation's, where the backbone knows OpenMMLab's names and the branches are merged as there."""
        return openmmlab_names.schemes(self.backbone) if self.pyramid.merge_kernel == 3 else ()

    def names_in(self, scheme: str) -> Names:
        """MMSegmentation's names of a `DepthwiseSeparableASPPHead`."""
        own: dict[str, Source] = {}
        for ours, theirs in (("low", "c1_bottleneck"), ("pyramid.branches.0", "aspp_modules.0")):
            own |= openmmlab_names.module(ours, f"{openmmlab_names.HEAD}.{theirs}")
        own |= openmmlab_names.module("pyramid.pooled", f"{openmmlab_names.HEAD}.image_pool.1")
        for i in range(1, len(self.pyramid.branches)):
            own |= openmmlab_names.separable(f"pyramid.branches.{i}", f"{openmmlab_names.HEAD}.aspp_modules.{i}")
        for i in range(2):
            own |= openmmlab_names.separable(f"decoder.{i}", f"{openmmlab_names.HEAD}.sep_bottleneck.{i}")
        merge = openmmlab_names.module("pyramid.merge", f"{openmmlab_names.HEAD}.bottleneck")
        # The mean of the whole map is their first branch and our last.
        first = replace(merge["pyramid.merge.conv.weight"], rolled=self.pyramid.channels)
        own |= {**merge, "pyramid.merge.conv.weight": first}
        return openmmlab_names.whole(self.backbone, own, "decoder.2", self.aux is not None)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The pyramid's pooled branch has one pixel an image."""
        yield from whole_image_rule(part, "DeepLabV3Plus")

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/4), ceil(W/4), K] where the fine map has stride 4.

        Behind them those of the second head, where there is one.
        """
        if self.aux is None:
            return [self._logits(*self.backbone(images))]
        inner, maps = walk_with(self.backbone, images, self._aux_at)
        return [self._logits(*maps), self.aux(inner)]

    def _logits(self, fine: Tensor, coarse: Tensor) -> Tensor:
        context = ops.resize_bilinear(self.dropout(self.pyramid(coarse)), fine)
        return self.decoder(ops.concat([context, self.low(fine)], axis=3))


class _Pyramid(nn.Layer):
    """Atrous spatial pyramid pooling.  x: [N, h, w, C]; y: [N, h, w, channels].

    A 1x1 convolution, a separable 3x3 one for each rate and the mean of the whole map, side by side, merged by one.
    """

    def __init__(self, in_channels: int, channels: int, rates: tuple[int, ...], merge_kernel: int) -> None:
        super().__init__()
        self.channels, self.merge_kernel = channels, merge_kernel
        branches: list[nn.Layer] = [nn.ConvBNAct(in_channels, channels, 1)]
        branches += [separable(in_channels, channels, rate) for rate in rates]
        self.branches = nn.LayerList(branches)
        self.pooled = nn.ConvBNAct(in_channels, channels, 1)
        self.merge = nn.ConvBNAct(channels * (len(rates) + 2), channels, merge_kernel)

    def forward(self, x: Tensor) -> Tensor:
        maps = [branch(x) for branch in self.branches]
        pooled = self.pooled(ops.mean(x, axes=(1, 2), keepdims=True))
        return self.merge(ops.concat([*maps, ops.broadcast_like(pooled, maps[0])], axis=3))
