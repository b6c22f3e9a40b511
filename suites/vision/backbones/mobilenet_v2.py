"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018, arXiv:1801.04381)."""

from __future__ import annotations

from typing import Literal

from framework import nn
from framework.tensor import Tensor
from suites.engine.registry import register
from suites.vision.backbones.base import Stack, check_scale, check_strides

# (expansion, channels out, blocks, stride of the first block) of each stage after the stem (table 2 of the paper).
_PLAN = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


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
    """

    def __init__(
        self, scale: float = 1.0, out_strides: tuple[int, ...] = (8, 16, 32), output_stride: Literal[8, 16, 32] = 32
    ) -> None:
        super().__init__()
        check_scale("MobileNetV2", scale)
        self.strides = check_strides("MobileNetV2", out_strides, [s for s in (2, 4, 8, 16, 32) if s <= output_stride])
        width = _scaled(32, scale)
        self.stem = nn.ConvBNAct(3, width, 3, stride=2, act="relu6")
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
                blocks.append(_InvertedResidual(width, _scaled(out, scale), expansion, 1 if i else stride, dilation))
                width = _scaled(out, scale)
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last)


class _InvertedResidual(nn.Layer):
    """[N, H, W, C] to [N, H/stride, W/stride, K] through C * expansion channels; plus its input where shapes agree."""

    def __init__(self, in_channels: int, out_channels: int, expansion: int, stride: int, dilation: int) -> None:
        super().__init__()
        inner = in_channels * expansion
        layers = [nn.ConvBNAct(in_channels, inner, 1, act="relu6")] if expansion > 1 else []
        layers.append(nn.ConvBNAct(inner, inner, 3, stride, groups=inner, dilation=dilation, act="relu6"))
        layers.append(nn.ConvBNAct(inner, out_channels, 1, act="none"))
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def _scaled(channels: int, scale: float) -> int:
    """The nearest multiple of 8, but never 10 % less (the authors' rule for rounding)."""
    wanted = channels * scale
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded
