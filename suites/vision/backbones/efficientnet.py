"""EfficientNet-B0 to B4: inverted residuals scaled in width and depth together (Tan and Le 2019, arXiv:1905.11946)."""

from __future__ import annotations

import math
from typing import Literal

from framework import nn
from suites.engine.registry import register
from suites.engine.weights import Names, Origins, Source
from suites.vision.backbones.base import ConvTop, Stack, check_strides
from suites.vision.backbones.efficientnet_lite import PLAN, SCALES
from suites.vision.backbones.inverted import InvertedResidual
from suites.vision.backbones.naming import conv_norm, linear
from suites.vision.backbones.squeeze import SqueezeExcite, rounded, squeeze_names
from suites.vision.backbones.staged import chosen

_STEM, _TOP = 32, 1280  # channels of B0


@register("backbone")
class EfficientNet(Stack):
    """Stem and inverted residuals with kernels of 3 and 5, each with squeeze and excitation; batch norm and SiLU.

    Windows begin with the image, as in PyTorch's and torchvision's; any image size will do: a map has ceil(H / s) rows.

    Args:
        size: 0 to 4, for B0 to B4.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as efficientnet_b0_imagenet; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("torchvision", "timm")

    def __init__(
        self,
        size: Literal[0, 1, 2, 3, 4] = 0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("EfficientNet", out_strides, (2, 4, 8, 16, 32))
        self._size = size
        wide, deep = SCALES[size]
        self._plan = [(e, k, rounded(out * wide), math.ceil(n * deep), s) for e, k, out, n, s in PLAN]
        self._wide = rounded(_TOP * wide)
        width = rounded(_STEM * wide)
        self.stem = nn.ConvBNAct(3, width, 3, 2, act="silu")
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total = 2
        for expansion, kernel, out, count, stride in self._plan:
            total *= stride
            if total > self.strides[-1]:
                break
            for i in range(count):
                blocks.append(_block(width, out, expansion, kernel, 1 if i else stride))
                width = out
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last)
        self.finish(freeze_at, frozen_norm, pretrained)

    def top(self) -> tuple[nn.Layer, int]:
        """A 1x1 convolution to 1,280 channels, more for the larger ones, then the mean."""
        return ConvTop(self.channels[-1], self._wide, "silu"), self._wide

    def names_in(self, scheme: str) -> Names:
        """Torchvision's or timm's names."""
        stem = ("conv_stem", "bn1") if scheme == "timm" else ("features.0.0", "features.0.1")
        names, at = conv_norm("stem", *stem), 0
        for stage, (expansion, _, _, count, _) in enumerate(self._plan):
            of_block = _timm_names if scheme == "timm" else _torchvision_names
            for i in range(count):
                names |= of_block(f"blocks.{at}.body", stage, i, expansion > 1)
                at += 1
        return chosen(self, names, self.top_names(scheme))

    def origins_in(self, scheme: str) -> Origins:
        """Timm's without TensorFlow's padding; those with it, and its eps, are other networks."""
        name = f"efficientnet_b{self._size}"
        return Origins((name, "torchvision"), (f"tf_{name}",)) if scheme == "timm" else Origins()

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution and the linear layer."""
        pair = ("conv_head", "bn2") if scheme == "timm" else ("features.8.0", "features.8.1")
        fc = "classifier" if scheme == "timm" else "classifier.1"
        return Names({**conv_norm("top.conv", *pair), **linear("fc", fc)})


def _block(in_channels: int, out_channels: int, expansion: int, kernel: int, stride: int) -> InvertedResidual:
    inner = in_channels * expansion
    layers: list[nn.Layer] = [nn.ConvBNAct(in_channels, inner, 1, act="silu")] if expansion > 1 else []
    layers.append(nn.ConvBNAct(inner, inner, kernel, stride, groups=inner, act="silu"))
    layers.append(SqueezeExcite(inner, max(1, in_channels // 4), act="silu"))
    layers.append(nn.ConvBNAct(inner, out_channels, 1, act="none"))
    return InvertedResidual(layers, in_channels, out_channels, stride)


def _torchvision_names(ours: str, stage: int, i: int, expanded: bool) -> dict[str, Source]:
    """Of block i of a stage; `ours` is its body."""
    names: dict[str, Source] = {}
    theirs = f"features.{stage + 1}.{i}.block"
    squeeze = 2 if expanded else 1
    for j in range(squeeze + 2):
        place = f"{theirs}.{j}"
        names |= (
            squeeze_names(f"{ours}.{j}", place)
            if j == squeeze
            else conv_norm(f"{ours}.{j}", f"{place}.0", f"{place}.1")
        )
    return names


def _timm_names(ours: str, stage: int, i: int, expanded: bool) -> dict[str, Source]:
    theirs, at = f"blocks.{stage}.{i}", int(expanded)
    convs = ("conv_pw", "conv_dw", "conv_pwl") if expanded else ("conv_dw", "conv_pw")
    names = squeeze_names(f"{ours}.{at + 1}", f"{theirs}.se", "conv_reduce", "conv_expand")
    for j, conv in enumerate(convs):
        names |= conv_norm(f"{ours}.{j if j <= at else j + 1}", f"{theirs}.{conv}", f"{theirs}.bn{j + 1}")
    return names
