"""EfficientNet-Lite 0 to 4: EfficientNet (Tan and Le 2019, arXiv:1905.11946) without squeeze-and-excitation, with ReLU6
(https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite).
"""

from __future__ import annotations

import math
from typing import Literal

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Origins
from suites.vision.backbones.base import ConvTop, Stack, check_strides
from suites.vision.backbones.inverted import InvertedResidual
from suites.vision.backbones.naming import conv_norm, linear

# (expansion, kernel, channels out, blocks, stride of the first block) of each stage of EfficientNet-B0 (table 1).
PLAN = (
    (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)  # fmt: skip
SCALES = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2), (1.2, 1.4), (1.4, 1.8))  # of channels and of blocks
_STEM, _TOP = 32, 1280  # not scaled
_EPS = 1e-3


@register("backbone")
class EfficientNetLite(Stack):
    """Stem and inverted residuals with kernels of 3 and 5; batch norm and ReLU6.

    TensorFlow pads so that the last window ends with the image, PyTorch and this core so that the first begins with it.
    For published weights to fit at any size, the network works on the image turned by 180 degrees, with its kernels
    turned as well, and turns its maps back.

    Args:
        size: 0 to 4.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as efficientnet_lite0_imagenet; see
            docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("efficientnet-lite-pytorch", "timm")

    def __init__(
        self,
        size: Literal[0, 1, 2, 3, 4] = 0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("EfficientNetLite", out_strides, (2, 4, 8, 16, 32))
        self._plan = stages(size)
        self._size = size
        self.stem = nn.ConvBNAct(3, _STEM, 3, 2, act="relu6", norm_eps=_EPS)
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total, width = 2, _STEM
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

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        return [ops.flip(y, axes=(1, 2)) for y in super().forward(ops.flip(x, axes=(1, 2)))]

    def before_blocks(self, x: Tensor) -> Tensor:
        """The stem's result on the image turned."""
        return super().before_blocks(ops.flip(x, axes=(1, 2)))

    def after_blocks(self, x: Tensor) -> Tensor:
        """The map turned back."""
        return ops.flip(x, axes=(1, 2))

    def top(self) -> tuple[nn.Layer, int]:
        """A 1x1 convolution to 1,280 channels, then the mean."""
        return ConvTop(self.channels[-1], _TOP, "relu6", _EPS), _TOP

    def names_in(self, scheme: str) -> Names:
        """Names of efficientnet-lite-pytorch (and EfficientNet-PyTorch before it) or of timm."""
        timm = scheme == "timm"
        names = conv_norm("stem", *(("conv_stem", "bn1") if timm else ("_conv_stem", "_bn0")), flipped=True)
        places = [(stage, i) for stage, (*_, count, _) in enumerate(self._plan) for i in range(count)]
        for i, block in enumerate(self.blocks):
            assert isinstance(block, InvertedResidual)
            layers = len(block.body)
            if timm:
                place = "blocks.{}.{}.".format(*places[i])
                convs = ["conv_pw", "conv_dw", "conv_pwl"] if layers == 3 else ["conv_dw", "conv_pw"]
                pairs = [(c, f"bn{j}") for j, c in enumerate(convs, start=1)]
            else:
                place = f"_blocks.{i}."
                pairs = [("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")][-layers:]
            for j, (conv, norm) in enumerate(pairs):
                names |= conv_norm(f"blocks.{i}.body.{j}", place + conv, place + norm, flipped=True)
        left = {str(stage) for stage, _ in places[len(self.blocks) :]} if timm else range(len(self.blocks), len(places))
        coarser = rf"^_?blocks\.({'|'.join(map(str, left))})\."
        heads = (r"^conv_head\.", r"^bn2\.", r"^classifier\.") if timm else (r"^_conv_head\.", r"^_bn1\.", r"^_fc\.")
        return Names(names, (*heads, *([coarser] if left else [])))

    def origins_in(self, scheme: str) -> Origins:
        """Of timm's, those with TensorFlow's padding; its others pad as PyTorch does, with another eps."""
        if scheme != "timm":
            return Origins()
        return Origins((f"tf_efficientnet_lite{self._size}",), (f"efficientnet_lite{self._size}",))

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution and the linear layer."""
        timm = scheme == "timm"
        pair = ("conv_head", "bn2") if timm else ("_conv_head", "_bn1")
        return Names({**conv_norm("top.conv", *pair), **linear("fc", "classifier" if timm else "_fc")})


def _block(in_channels: int, out_channels: int, expansion: int, kernel: int, stride: int) -> InvertedResidual:
    inner = in_channels * expansion
    layers = [nn.ConvBNAct(in_channels, inner, 1, act="relu6", norm_eps=_EPS)] if expansion > 1 else []
    layers.append(nn.ConvBNAct(inner, inner, kernel, stride, groups=inner, act="relu6", norm_eps=_EPS))
    layers.append(nn.ConvBNAct(inner, out_channels, 1, act="none", norm_eps=_EPS))
    return InvertedResidual(layers, in_channels, out_channels, stride)


def stages(size: int) -> list[tuple[int, int, int, int, int]]:
    """The plan of a size: the first and the last stage keep their number of blocks."""
    width, depth = SCALES[size]
    ends = (0, len(PLAN) - 1)
    return [
        (expansion, kernel, _scaled(out, width), count if i in ends else math.ceil(count * depth), stride)
        for i, (expansion, kernel, out, count, stride) in enumerate(PLAN)
    ]


def _scaled(channels: int, scale: float) -> int:
    """The nearest multiple of 8, but never 10 % less (the authors' rule for rounding)."""
    wanted = channels * scale
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded
