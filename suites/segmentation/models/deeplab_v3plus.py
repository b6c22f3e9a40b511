"""DeepLabV3+: atrous spatial pyramid pooling, and a decoder that sharpens it (Chen et al. 2018, arXiv:1802.02611).

Letters: N batch, H W image size, h w size of the coarse map, C channels in, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.segmentation.models import openmmlab_names, paddleseg_names
from suites.segmentation.models.parts import (
    check_classes,
    check_maps,
    classifier,
    separable,
    whole_image_rule,
)
from suites.segmentation.models.second_head import SecondHeaded
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv


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
        inner_act: between the two convolutions of a separable one: ReLU as in the paper's code, none in PaddleSeg.
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
        inner_act: Literal["relu", "none"] = "relu",
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("DeepLabV3Plus", num_classes)
        check_maps("DeepLabV3Plus", backbone, 2, "two, a fine and a coarse one: out_strides: [4, 16]")
        if merge_kernel not in (1, 3):
            raise AttributeValueError(f"DeepLabV3Plus: merge_kernel is {merge_kernel}; it must be 1 or 3")
        self.backbone = backbone
        low, high = backbone.channels
        self.inner_act, self.low_channels = inner_act, low_channels
        self.pyramid = _Pyramid(high, channels, rates, merge_kernel, inner_act)
        self.dropout = nn.Dropout(dropout)
        self.low = nn.ConvBNAct(low, low_channels, 1)
        self.decoder = nn.Sequential(
            separable(channels + low_channels, channels, act=inner_act),
            separable(channels, channels, act=inner_act),
            classifier(channels, num_classes),
        )
        self.add_second_head(aux_weight, aux_channels, dropout)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifiers; a file without a second head leaves that new."""
        return (r"^decoder\.2\.", r"^aux\.")

    @property
    def schemes(self) -> tuple[str, ...]:
        """MMSegmentation's or PaddleSeg's, where the backbone knows its names and the head is made as there."""
        if self.inner_act == "none":
            return paddleseg_names.schemes(self.backbone) if self.pyramid.merge_kernel == 1 else ()
        return openmmlab_names.schemes(self.backbone) if self.pyramid.merge_kernel == 3 else ()

    def names_in(self, scheme: str) -> Names:
        """MMSegmentation's names of a `DepthwiseSeparableASPPHead`, or PaddleSeg's of a `DeepLabV3PHead`."""
        if scheme == paddleseg_names.SCHEME:
            return self._paddleseg_names()
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
        width = self.pyramid.channels
        columns = paddleseg_names.moved(width * (len(self.pyramid.branches) + 1), width)
        own |= {**merge, "pyramid.merge.conv.weight": replace(merge["pyramid.merge.conv.weight"], columns=columns)}
        return openmmlab_names.whole(self.backbone, own, "decoder.2", self.aux is not None)

    def _paddleseg_names(self) -> Names:
        own = paddleseg_names.module("pyramid.branches.0", "head.aspp.aspp_blocks.0")
        own |= paddleseg_names.module("pyramid.pooled", "head.aspp.global_avg_pool.1", biased=False)
        own |= paddleseg_names.module("pyramid.merge", "head.aspp.conv_bn_relu")
        own |= paddleseg_names.module("low", "head.decoder.conv_bn_relu1")
        for i in range(1, len(self.pyramid.branches)):
            own |= paddleseg_names.separable(f"pyramid.branches.{i}", f"head.aspp.aspp_blocks.{i}")
        for i in range(2):
            own |= paddleseg_names.separable(f"decoder.{i}", f"head.decoder.conv_bn_relu{i + 2}")
        own |= conv("decoder.2", "head.decoder.conv", bias=True)
        return paddleseg_names.whole(self.backbone, own)

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

    def __init__(self, in_channels: int, channels: int, rates: tuple[int, ...], merge_kernel: int, act: str) -> None:
        super().__init__()
        self.channels, self.merge_kernel = channels, merge_kernel
        branches: list[nn.Layer] = [nn.ConvBNAct(in_channels, channels, 1)]
        branches += [separable(in_channels, channels, rate, act=act) for rate in rates]
        self.branches = nn.LayerList(branches)
        self.pooled = nn.ConvBNAct(in_channels, channels, 1)
        self.merge = nn.ConvBNAct(channels * (len(rates) + 2), channels, merge_kernel)

    def forward(self, x: Tensor) -> Tensor:
        maps = [branch(x) for branch in self.branches]
        pooled = self.pooled(ops.mean(x, axes=(1, 2), keepdims=True))
        return self.merge(ops.concat([*maps, ops.broadcast_like(pooled, maps[0])], axis=3))
