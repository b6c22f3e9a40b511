"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018, arXiv:1801.04381)."""

from __future__ import annotations

from typing import Literal

from framework import nn
from suites.engine.registry import register
from suites.engine.weights import Names, Origins
from suites.vision.backbones.base import ConvTop, Stack, check_scale, check_strides
from suites.vision.backbones.inverted import InvertedResidual
from suites.vision.backbones.naming import conv_norm, linear, spread_over_frames

# (expansion, channels out, blocks, stride of the first block) of each stage after the stem (table 2 of the paper).
_PLAN = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_COUNT = sum(count for _, _, count, _ in _PLAN)  # blocks


@register("backbone")
class MobileNetV2(Stack):
    """Stem and 17 inverted residuals: 1x1 expansion, depthwise 3x3, linear 1x1; batch norm and ReLU6.

    With an `output_stride` of 16 or 8, stages that would go below it keep their map's size and dilate their depthwise
    convolutions instead, by 2, then 4 (Chen et al. 2018, arXiv:1802.02611). Any image size will do: a map has
    ceil(H / s) rows.

    Args:
        scale: factor on all channel numbers ("width multiplier"), rounded to multiples of 8.
        out_strides: strides of the maps given out, of 2, 4, ... `output_stride`; the network ends at the last.
        output_stride: least resolution of the maps, 1 / 32, 1 / 16 or 1 / 8 of the image.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as mobilenetv2_imagenet; see docs/howto/pretrained.md.
        in_channels: of the image; with 3 M of them, M frames laid side by side, weights of networks for 3 are spread.
    """

    schemes: tuple[str, ...] = ("torchvision", "torchvision_flat", "timm")

    def __init__(
        self,
        scale: float = 1.0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        output_stride: Literal[8, 16, 32] = 32,
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        check_scale("MobileNetV2", scale)
        self.strides = check_strides("MobileNetV2", out_strides, [s for s in (2, 4, 8, 16, 32) if s <= output_stride])
        width = _scaled(32, scale)
        self.stem = nn.ConvBNAct(in_channels, width, 3, stride=2, act="relu6")
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total, dilation = 2, 1
        for expansion, out, count, stride in _PLAN:
            if total * stride > output_stride:
                stride, dilation = 1, dilation * stride
            total *= stride
            if total > self.strides[-1]:
                break
            for i in range(count):
                blocks.append(_block(width, _scaled(out, scale), expansion, 1 if i else stride, dilation))
                width = _scaled(out, scale)
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last)
        self._scale = scale
        self.as_published = output_stride == 32
        self.finish(freeze_at, frozen_norm, pretrained)

    def top(self) -> tuple[nn.Layer, int]:
        """A 1x1 convolution to 1,280 channels, more for scales above 1, then the mean."""
        channels = _scaled(1280, max(1.0, self._scale))
        return ConvTop(self.channels[-1], channels, "relu6"), channels

    def names_in(self, scheme: str) -> Names:
        """Names of torchvision, of its older flat form, or of timm (of the convolutions and norms of each block)."""
        stem = ("conv_stem", "bn1") if scheme == "timm" else ("features.0.0", "features.0.1")
        names = spread_over_frames(conv_norm("stem", *stem), "stem", in_channels=self.in_channels)
        count = len(self.blocks)
        for i, block in enumerate(self.blocks):
            assert isinstance(block, InvertedResidual)
            theirs = _block_names(scheme, i, len(block.body))
            for j, pair in enumerate(theirs):
                names |= conv_norm(f"blocks.{i}.body.{j}", *pair)
        if scheme == "timm":
            left = (r"^conv_head\.", r"^bn2\.", r"^classifier\.")
            return Names(names, (*left, rf"^blocks\.[{_timm_stage(count)[0]}-7]\."))
        coarser = "|".join(map(str, range(count + 1, _COUNT + 2)))
        return Names(names, (rf"^features\.({coarser})\.", r"^classifier\."))

    def origins_in(self, scheme: str) -> Origins:
        """Timm's of the same width."""
        return Origins((f"mobilenetv2_{round(100 * self._scale):03d}",)) if scheme == "timm" else Origins()

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution and the linear layer."""
        pair = ("conv_head", "bn2") if scheme == "timm" else ("features.18.0", "features.18.1")
        fc = "classifier" if scheme == "timm" else "classifier.1"
        return Names({**conv_norm("top.conv", *pair), **linear("fc", fc)})


def _block_names(scheme: str, i: int, layers: int) -> list[tuple[str, str]]:
    """Convolution and norm of each layer of block i, which has `layers` of them."""
    if scheme == "timm":
        stage, number = _timm_stage(i)
        convs = ["conv_pw", "conv_dw", "conv_pwl"] if layers == 3 else ["conv_dw", "conv_pw"]
        return [
            (f"blocks.{stage}.{number}.{c}", f"blocks.{stage}.{number}.bn{j}") for j, c in enumerate(convs, start=1)
        ]
    place = f"features.{i + 1}.conv"
    if scheme == "torchvision_flat":
        return [(f"{place}.{3 * j}", f"{place}.{3 * j + 1}") for j in range(layers)]
    inner = [(f"{place}.{j}.0", f"{place}.{j}.1") for j in range(layers - 1)]
    return [*inner, (f"{place}.{layers - 1}", f"{place}.{layers}")]


def _timm_stage(i: int) -> tuple[int, int]:
    """Stage and place in it of block i."""
    for stage, (_, _, blocks, _) in enumerate(_PLAN):
        if i < blocks:
            return stage, i
        i -= blocks
    return len(_PLAN), 0


def _block(in_channels: int, out_channels: int, expansion: int, stride: int, dilation: int) -> InvertedResidual:
    inner = in_channels * expansion
    layers = [nn.ConvBNAct(in_channels, inner, 1, act="relu6")] if expansion > 1 else []
    layers.append(nn.ConvBNAct(inner, inner, 3, stride, groups=inner, dilation=dilation, act="relu6"))
    layers.append(nn.ConvBNAct(inner, out_channels, 1, act="none"))
    return InvertedResidual(layers, in_channels, out_channels, stride)


def _scaled(channels: int, scale: float) -> int:
    """The nearest multiple of 8, but never 10 % less (the authors' rule for rounding)."""
    wanted = channels * scale
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded
