"""MobileNetV3, large and small (Howard et al. 2019, arXiv:1905.02244)."""

from __future__ import annotations

from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones.base import Stack, check_scale, check_strides
from suites.vision.backbones.inverted import InvertedResidual
from suites.vision.backbones.naming import conv_norm, linear
from suites.vision.backbones.squeeze import SqueezeExcite, rounded, squeeze_names

# (kernel, channels within, channels out, squeeze and excitation, activation, stride) of each block (tables 1 and 2).
_LARGE = (
    (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2), (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hardswish", 2), (3, 200, 80, False, "hardswish", 1), (3, 184, 80, False, "hardswish", 1),
    (3, 184, 80, False, "hardswish", 1), (3, 480, 112, True, "hardswish", 1), (3, 672, 112, True, "hardswish", 1),
    (5, 672, 160, True, "hardswish", 2), (5, 960, 160, True, "hardswish", 1), (5, 960, 160, True, "hardswish", 1),
)  # fmt: skip
_SMALL = (
    (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hardswish", 2), (5, 240, 40, True, "hardswish", 1), (5, 240, 40, True, "hardswish", 1),
    (5, 120, 48, True, "hardswish", 1), (5, 144, 48, True, "hardswish", 1), (5, 288, 96, True, "hardswish", 2),
    (5, 576, 96, True, "hardswish", 1), (5, 576, 96, True, "hardswish", 1),
)  # fmt: skip
_PLANS = {"large": (_LARGE, 1280), "small": (_SMALL, 1024)}  # blocks, features before the classifier
_STEM = 16
_EPS = 1e-3


@register("backbone")
class MobileNetV3(Stack):
    """Stem and inverted residuals, some with squeeze and excitation; batch norm, ReLU, then hard swish.

    Args:
        size: "large" or "small".
        scale: factor on all channel numbers ("width multiplier"), rounded to multiples of 8.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last. The small one has
            no map of stride 2.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        output_stride: least resolution of the maps, 1 / 32, 1 / 16 or 1 / 8 of the image; stages that would go below it
            keep their map's size and dilate their depthwise convolutions instead.
        segmenting: as LR-ASPP and torchvision's DeepLabV3 see it: the coarsest map behind the 1x1 convolution that
            its classifier has too, the others behind the first block of their stride.
        ssdlite: as SSDlite sees it (section 6.3): the coarsest map behind the same 1x1 convolution, the others behind
            the expansion of the next stride's first block; the blocks of stride 32 have half the channels.
    """

    schemes: tuple[str, ...] = ("torchvision",)

    def __init__(
        self,
        size: Literal["large", "small"] = "large",
        scale: float = 1.0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
        output_stride: Literal[8, 16, 32] = 32,
        segmenting: bool = False,
        ssdlite: bool = False,
    ) -> None:
        super().__init__()
        check_scale("MobileNetV3", scale)
        if ssdlite and (segmenting or output_stride < 32 or tuple(out_strides)[-1:] != (32,)):
            raise AttributeValueError(
                f"MobileNetV3: ssdlite with segmenting {segmenting}, output_stride {output_stride} and out_strides "
                f"{list(out_strides)}; it is of stride 32, without segmenting"
            )
        self.ssdlite = ssdlite
        offered = [s for s in (2, 4, 8, 16, 32)[size == "small" :] if s <= output_stride]
        self.strides = check_strides("MobileNetV3", out_strides, offered)
        self._plan, self._features = _PLANS[size]
        self._scale = scale
        width = rounded(_STEM * scale)
        self.stem = nn.ConvBNAct(3, width, 3, 2, act="hardswish", norm_eps=_EPS)
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}  # stride -> (index, channels) of its last block
        total, dilation = 2, 1
        openers: dict[int, tuple[int, int]] = {}  # stride -> (index, channels within) of its first block
        for kernel, inner, out, squeeze, act, stride in self._plan:
            if total * stride > output_stride:
                stride, dilation = 1, dilation * stride
            total *= stride
            if total > self.strides[-1]:
                break
            half = 2 if ssdlite and total == 32 else 1
            inner = rounded(inner * scale / (half if stride == 1 else 1))
            out = rounded(out * scale / half)
            if stride > 1:
                openers[total] = len(blocks), inner
            blocks.append(_block(width, inner, out, kernel, stride, act, squeeze, dilation))
            width = out
            last[total] = (len(blocks) - 1, width)
        self.keep(blocks, last, early=segmenting)
        self.last: nn.ConvBNAct | None = None
        if segmenting or ssdlite:
            self.last = nn.ConvBNAct(width, 6 * width, 1, act="hardswish", norm_eps=_EPS)
            self.channels = (*self.channels[:-1], 6 * width)
        self.openers = [openers[2 * s][0] for s in self.strides[:-1]] if ssdlite else []
        if ssdlite:
            self.channels = (*(openers[2 * s][1] for s in self.strides[:-1]), self.channels[-1])
        self.as_published = output_stride == 32 and not segmenting and not ssdlite
        self.finish(freeze_at, frozen_norm, pretrained)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        if self.openers:
            return self._expansions(x)
        maps = super().forward(x)
        return maps if self.last is None else [*maps[:-1], self.last(maps[-1])]

    def _expansions(self, x: Tensor) -> list[Tensor]:
        assert self.last is not None  # of `ssdlite`
        x, maps = self.stem(x), []
        for i, block in enumerate(self.blocks):
            if i in self.openers:
                assert isinstance(block, InvertedResidual)
                first, *others = block.body
                maps.append(first(x))
                x = nn.Sequential(*others)(maps[-1])
            else:
                x = block(x)
        return [*maps, self.last(x)]

    def after_blocks(self, x: Tensor) -> Tensor:
        """The coarsest map, of what the last block gave."""
        return x if self.last is None else self.last(x)

    def top(self) -> tuple[nn.Layer, int]:
        """A 1x1 convolution, the mean, a linear layer and hard swish."""
        features = rounded(self._features * self._scale) if self._scale > 1 else self._features
        return _Top(self.channels[-1], 6 * self.channels[-1], features), features

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names."""
        names = conv_norm("stem", "features.0.0", "features.0.1")
        for i, block in enumerate(self.blocks):
            assert isinstance(block, InvertedResidual)
            place = f"features.{i + 1}.block"
            for j, layer in enumerate(block.body):
                if isinstance(layer, SqueezeExcite):
                    names |= squeeze_names(f"blocks.{i}.body.{j}", f"{place}.{j}")
                else:
                    names |= conv_norm(f"blocks.{i}.body.{j}", f"{place}.{j}.0", f"{place}.{j}.1")
        end = len(self._plan) + 1
        if self.last is not None:
            names |= conv_norm("last", f"features.{end}.0", f"features.{end}.1")
        coarser = "|".join(str(i) for i in range(len(self.blocks) + 1, end + (self.last is None)))
        return Names(names, (*([rf"^features\.({coarser})\."] if coarser else []), r"^classifier\."))

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution and both linear layers."""
        last = f"features.{len(self._plan) + 1}"
        names = conv_norm("top.conv", f"{last}.0", f"{last}.1")
        return Names({**names, **linear("top.linear", "classifier.0"), **linear("fc", "classifier.3")})


def _block(
    in_channels: int,
    inner: int,
    out_channels: int,
    kernel: int,
    stride: int,
    act: str,
    squeeze: bool,
    dilation: int,
) -> InvertedResidual:
    wide = inner != in_channels
    layers: list[nn.Layer] = [nn.ConvBNAct(in_channels, inner, 1, act=act, norm_eps=_EPS)] if wide else []
    layers.append(nn.ConvBNAct(inner, inner, kernel, stride, inner, dilation, act=act, norm_eps=_EPS))
    if squeeze:
        layers.append(SqueezeExcite(inner, rounded(inner // 4), "hardsigmoid"))
    layers.append(nn.ConvBNAct(inner, out_channels, 1, act="none", norm_eps=_EPS))
    return InvertedResidual(layers, in_channels, out_channels, stride)


class _Top(nn.Layer):
    """[N, H, W, C] to [N, D]."""

    def __init__(self, in_channels: int, inner: int, features: int) -> None:
        super().__init__()
        self.conv = nn.ConvBNAct(in_channels, inner, 1, act="hardswish", norm_eps=_EPS)
        self.pool = nn.GlobalAvgPool2d()
        self.linear = nn.Linear(inner, features)

    def forward(self, x: Tensor) -> Tensor:
        return ops.hardswish(self.linear(self.pool(self.conv(x))))
