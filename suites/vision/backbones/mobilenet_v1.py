"""MobileNetV1: depthwise separable convolutions (Howard et al. 2017, arXiv:1704.04861)."""

from __future__ import annotations

from framework import nn
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones.base import Stack, check_scale, check_strides
from suites.vision.backbones.naming import conv_norm, linear

# (channels out, stride) of the 13 separable blocks after the stem, at scale 1.
_PLAN = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
_PADDLE_BLOCKS = ("2_1", "2_2", "3_1", "3_2", "4_1", "4_2", *(f"5_{i}" for i in range(1, 7)), "6")


@register("backbone")
class MobileNetV1(Stack):
    """Stem and 13 blocks of a depthwise 3x3 and a 1x1 convolution, each with batch norm and an activation.

    Args:
        scale: factor on all channel numbers ("width multiplier"), rounded to multiples of 8.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        act: the activation: "relu", or "leaky_relu" of slope 0.1, as RetinaFace has it.
    """

    schemes: tuple[str, ...] = ("paddledetection",)  # PaddleClas 2.0's too

    def __init__(
        self,
        scale: float = 1.0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
        act: str = "relu",
    ) -> None:
        super().__init__()
        check_scale("MobileNetV1", scale)
        self.strides = check_strides("MobileNetV1", out_strides, (2, 4, 8, 16, 32))
        width = _scaled(32, scale)
        self.stem = nn.ConvBNAct(3, width, 3, stride=2, act=act)
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total = 2
        for out, stride in _PLAN:
            total *= stride
            if total > self.strides[-1]:
                break
            blocks.append(_separable(width, _scaled(out, scale), stride, act))
            width = _scaled(out, scale)
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last)
        self.finish(freeze_at, frozen_norm, pretrained)

    def names_in(self, scheme: str) -> Names:
        """Names of PaddleDetection, of which PaddleClas 2.0 has the same."""
        names = conv_norm("stem", "conv1._conv", "conv1._batch_norm", paddle=True)
        for i in range(len(self.blocks)):
            for k, part in enumerate(("_depthwise_conv", "_pointwise_conv")):
                theirs = f"conv{_PADDLE_BLOCKS[i]}.{part}"
                names |= conv_norm(f"blocks.{i}.{k}", f"{theirs}._conv", f"{theirs}._batch_norm", paddle=True)
        later = (rf"^conv{block}\." for block in _PADDLE_BLOCKS[len(self.blocks) :])
        return Names(names, (r"^out\.", *later))

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "out", paddle=True))


def _separable(in_channels: int, out_channels: int, stride: int, act: str) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvBNAct(in_channels, in_channels, 3, stride, groups=in_channels, act=act),
        nn.ConvBNAct(in_channels, out_channels, 1, act=act),
    )


def _scaled(channels: int, scale: float) -> int:
    return channels if scale == 1.0 else max(8, round(channels * scale / 8) * 8)
