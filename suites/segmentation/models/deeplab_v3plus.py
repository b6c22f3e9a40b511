"""DeepLabV3+: atrous spatial pyramid pooling, and a decoder that sharpens it (Chen et al. 2018, arXiv:1802.02611).

Letters: N batch, H W image size, h w size of the coarse map, C channels in, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.segmentation.models import openmmlab_names
from suites.segmentation.models.parts import (
    check_classes,
    check_maps,
    classifier,
    separable,
    whole_image_rule,
)
from suites.segmentation.models.second_head import SecondHeaded
from suites.vision.backbones import Backbone


@register("segmenter")
class DeepLabV3Plus(SecondHeaded):
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
        if merge_kernel not in (1, 3):
            raise AttributeValueError(f"DeepLabV3Plus: merge_kernel is {merge_kernel}; it must be 1 or 3")
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
        self.add_second_head(aux_weight, aux_channels, dropout)

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

    def logits_of(self, maps: list[Tensor]) -> Tensor:
        """Of the fine and the coarse map, at the fine one's stride, 4 in the paper."""
        fine, coarse = maps
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
