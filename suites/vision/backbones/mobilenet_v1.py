"""MobileNetV1: depthwise separable convolutions (Howard et al. 2017, arXiv:1704.04861)."""

from __future__ import annotations

from framework import nn
from suites.engine.registry import register
from suites.vision.backbones.base import Stack, check_scale, check_strides

# (channels out, stride) of the 13 separable blocks after the stem, at scale 1.
_PLAN = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


@register("backbone")
class MobileNetV1(Stack):
    """Stem and 13 blocks of a depthwise 3x3 and a 1x1 convolution, each with batch norm and ReLU.

    Args:
        scale: factor on all channel numbers ("width multiplier"), rounded to multiples of 8.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    def __init__(
        self,
        scale: float = 1.0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        check_scale("MobileNetV1", scale)
        self.strides = check_strides("MobileNetV1", out_strides, (2, 4, 8, 16, 32))
        width = _scaled(32, scale)
        self.stem = nn.ConvBNAct(3, width, 3, stride=2)
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total = 2
        for out, stride in _PLAN:
            total *= stride
            if total > self.strides[-1]:
                break
            blocks.append(_separable(width, _scaled(out, scale), stride))
            width = _scaled(out, scale)
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last)
        self.finish(freeze_at, frozen_norm, pretrained)


def _separable(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvBNAct(in_channels, in_channels, 3, stride, groups=in_channels),
        nn.ConvBNAct(in_channels, out_channels, 1),
    )


def _scaled(channels: int, scale: float) -> int:
    return channels if scale == 1.0 else max(8, round(channels * scale / 8) * 8)
