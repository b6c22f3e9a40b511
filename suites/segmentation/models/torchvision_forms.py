"""FCN (Shelhamer et al. 2017, arXiv:1605.06211), DeepLabV3 (Chen et al. 2017, arXiv:1706.05587) and LR-ASPP (Howard et
al. 2019, arXiv:1905.02244) as torchvision has them, whose weights they read.

Letters: N batch, H W image size, s stride of the coarse map, C channels in, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import (
    Head,
    check_classes,
    check_maps,
    classifier,
    whole_image_rule,
)
from suites.segmentation.models.second_head import SecondHeaded
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import drawn_image
from suites.vision.backbones.naming import conv, conv_norm

_AUX = r"^aux_classifier\."


class _Published(Segmenter):
    """What the three share: a backbone under torchvision's names, and weights of the whole."""

    backbone: Backbone

    @property
    def schemes(self) -> tuple[str, ...]:
        """Torchvision's, where the backbone knows them."""
        return ("torchvision",) if "torchvision" in self.backbone.schemes else ()

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names. Those of a second head may be left over."""
        names = self.backbone.names_in(scheme)
        sources = {
            f"backbone.{ours}": replace(source, names=tuple(_of_backbone(n) for n in source.names))
            for ours, source in names.sources.items()
        }
        return Names({**sources, **self.head_names()}, (_AUX,))

    def head_names(self) -> dict[str, Source]:
        """What torchvision calls the tensors behind the backbone."""
        raise NotImplementedError(f"{type(self).__name__} defines no head_names()")

    def answers(self) -> dict[str, np.ndarray]:
        """Means of the logits by class, of a drawn image; see `suites.engine.weights.answers`."""
        return {"logits": self.outputs(drawn_image())[0].numpy().mean(axis=(0, 1, 2))}


def _of_backbone(name: str) -> str:
    """A name in the backbone of a segmenter: its features have no name of their own there."""
    return "backbone." + name.removeprefix("features.")


class _WithAux(_Published, SecondHeaded):
    """A coarse map to logits, and in training those of a second head on the stage before the last."""

    def _heads(self, backbone: Backbone, num_classes: int, aux_weight: float, dropout: float) -> None:
        who = type(self).__name__
        self.num_classes = check_classes(who, num_classes)
        check_maps(who, backbone, 1, "one: out_strides: [8]")
        self.backbone = backbone
        self.add_second_head(aux_weight, None, dropout)

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names."""
        names = super().names_in(scheme)
        return names if self.aux is None else Names({**names.sources, **_head_names("aux", "aux_classifier")})


def _head_names(ours: str, theirs: str) -> dict[str, Source]:
    return {
        **conv_norm(f"{ours}.0", f"{theirs}.0", f"{theirs}.1"),
        **conv(f"{ours}.2", f"{theirs}.4", bias=True),
    }


@register("segmenter")
class DilatedFCN(_WithAux):
    """A 3x3 convolution and a 1x1 one on a coarse map.

    Args:
        backbone: gives one map, of stride 8 in torchvision (`output_stride: 8`); made of blocks for the second head.
        num_classes: K.
        aux_weight: of the second head's loss; 0 for no such head.
        dropout: share of the features before each classifier that is dropped in training.
        pretrained: name or file of published weights of the whole; see docs/howto/pretrained.md.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^(head|aux)\.2\.",)

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        aux_weight: float = 0.0,
        dropout: float = 0.1,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self._heads(backbone, num_classes, aux_weight, dropout)
        self.head = Head(backbone.channels[-1], backbone.channels[-1] // 4, num_classes, dropout=dropout)
        start_from(self, pretrained)

    def logits_of(self, maps: list[Tensor]) -> Tensor:
        """Of the coarse map."""
        return self.head(maps[-1])

    def head_names(self) -> dict[str, Source]:
        """Of the head."""
        return _head_names("head", "classifier")


@register("segmenter")
class DeepLabV3(_WithAux):
    """Atrous spatial pyramid pooling on a coarse map, a 3x3 convolution and a 1x1 one.

    Args:
        backbone: as for `DilatedFCN`; of stride 16 on MobileNetV3.
        num_classes: K.
        rates: dilations of the pyramid's 3x3 convolutions.
        channels: of the pyramid's branches.
        aux_weight: as for `DilatedFCN`.
        dropout: share of the pyramid's output that is dropped in training.
        pretrained: as for `DilatedFCN`.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^(classifier|aux\.2)\.",)

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        rates: tuple[int, ...] = (12, 24, 36),
        channels: int = 256,
        aux_weight: float = 0.0,
        dropout: float = 0.5,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self._heads(backbone, num_classes, aux_weight, dropout)
        self.pyramid = _Pyramid(backbone.channels[-1], channels, rates, dropout)
        self.conv = nn.ConvBNAct(channels, channels, 3)
        self.classifier = classifier(channels, num_classes)
        start_from(self, pretrained)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The pyramid's pooled branch has one pixel an image."""
        yield from whole_image_rule(part, "DeepLabV3")

    def logits_of(self, maps: list[Tensor]) -> Tensor:
        """Of the coarse map."""
        return self.classifier(self.conv(self.pyramid(maps[-1])))

    def head_names(self) -> dict[str, Source]:
        """Of the pyramid and what is behind it."""
        theirs, count = "classifier.0", len(self.pyramid.branches)
        names: dict[str, Source] = {}
        for i in range(count):
            names |= conv_norm(f"pyramid.branches.{i}", f"{theirs}.convs.{i}.0", f"{theirs}.convs.{i}.1")
        names |= conv_norm("pyramid.pooled", f"{theirs}.convs.{count}.1", f"{theirs}.convs.{count}.2")
        names |= conv_norm("pyramid.merge", f"{theirs}.project.0", f"{theirs}.project.1")
        names |= conv_norm("conv", "classifier.1", "classifier.2")
        return names | conv("classifier", "classifier.4", bias=True)


class _Pyramid(nn.Layer):
    """A 1x1 convolution, a dilated 3x3 one for each rate and the mean of the map, merged, and dropout.

    x: [N, h, w, C]; y: [N, h, w, channels].
    """

    def __init__(self, in_channels: int, channels: int, rates: Sequence[int], dropout: float) -> None:
        super().__init__()
        branches = [nn.ConvBNAct(in_channels, channels, 1)]
        branches += [nn.ConvBNAct(in_channels, channels, 3, dilation=rate) for rate in rates]
        self.branches = nn.LayerList(branches)
        self.pooled = nn.ConvBNAct(in_channels, channels, 1)
        self.merge = nn.ConvBNAct(channels * (len(rates) + 2), channels, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, h, w, C]; y: [N, h, w, channels]."""
        maps = [branch(x) for branch in self.branches]
        pooled = self.pooled(ops.mean(x, axes=(1, 2), keepdims=True))
        return self.dropout(self.merge(ops.concat([*maps, ops.broadcast_like(pooled, maps[0])], axis=3)))


@register("segmenter")
class LRASPP(_Published):
    """MobileNetV3's head: the coarse map, gated by its own mean, enlarged to a fine map; both give logits.

    Args:
        backbone: gives a fine map of stride 8 and a coarse one of 16, as MobileNetV3 with `segmenting: true`.
        num_classes: K.
        channels: of the coarse map before its logits.
        pretrained: name or file of published weights of the whole; see docs/howto/pretrained.md.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^(low|high)\.",)

    def __init__(
        self, backbone: Backbone, num_classes: int, channels: int = 128, pretrained: str | None = None
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("LRASPP", num_classes)
        check_maps("LRASPP", backbone, 2, "two, a fine and a coarse one: out_strides: [8, 16]")
        self.backbone = backbone
        fine, coarse = backbone.channels
        self.conv = nn.ConvBNAct(coarse, channels, 1)
        self.gate = nn.Conv2d(coarse, channels, 1, bias=False)
        self.low, self.high = classifier(fine, num_classes), classifier(channels, num_classes)
        start_from(self, pretrained)

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/8), ceil(W/8), K]."""
        fine, coarse = self.backbone(images)
        gate = ops.sigmoid(self.gate(ops.mean(coarse, axes=(1, 2), keepdims=True)))
        seen = ops.resize_bilinear(self.conv(coarse) * gate, fine)
        return [self.low(fine) + self.high(seen)]

    def head_names(self) -> dict[str, Source]:
        """Of the head."""
        return {
            **conv_norm("conv", "classifier.cbr.0", "classifier.cbr.1"),
            **conv("gate", "classifier.scale.1"),
            **conv("low", "classifier.low_classifier", bias=True),
            **conv("high", "classifier.high_classifier", bias=True),
        }
