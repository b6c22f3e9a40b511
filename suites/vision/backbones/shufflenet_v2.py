"""ShuffleNetV2 x0.5 to x2.0: half of the channels pass, the other half is convolved (Ma et al. 2018, arXiv:1807.11164).

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import ConvTop, check_strides
from suites.vision.backbones.naming import conv_norm, linear
from suites.vision.backbones.staged import Stage, Staged

# width -> channels of stem, of the three stages and of the last convolution (table 5)
_WIDTHS = {
    0.5: (24, 48, 96, 192, 1024),
    1.0: (24, 116, 232, 464, 1024),
    1.5: (24, 176, 352, 704, 1024),
    2.0: (24, 244, 488, 976, 2048),
}
_COUNTS = (4, 8, 4)  # units of each stage


@register("backbone")
class ShuffleNetV2(Staged):
    """Stem, max pooling and three stages of units, whose two halves of channels are interleaved.

    Args:
        scale: 0.5, 1.0, 1.5 or 2.0: which of the paper's widths.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all. Stride 4 is a pooling.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as shufflenet_v2_x1_0_imagenet; see
            docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("torchvision",)

    def __init__(
        self,
        scale: float = 1.0,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if scale not in _WIDTHS:
            raise AttributeValueError(f"ShuffleNetV2: scale is {scale}; it must be one of {[*_WIDTHS]}")
        self.strides = check_strides("ShuffleNetV2", out_strides, (2, 4, 8, 16, 32))
        self._widths = _WIDTHS[scale]
        self.keep(self._plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def _plan(self) -> Iterator[Stage]:
        stem, *stages, _ = self._widths
        yield 2, stem, partial(nn.ConvBNAct, 3, stem, 3, 2)
        yield 4, stem, partial(nn.MaxPool2d, 3, 2, padding=1)
        width = stem
        for i, (out, count) in enumerate(zip(stages, _COUNTS, strict=True)):
            yield 8 << i, out, partial(_stage, width, out, count)
            width = out

    def top(self) -> tuple[nn.Layer, int]:
        """A 1x1 convolution to 1,024 channels, 2,048 at width 2, then the mean."""
        return ConvTop(self.channels[-1], self._widths[-1], "relu"), self._widths[-1]

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Torchvision's names."""
        names = conv_norm("stages.0", "conv1.0", "conv1.1")
        for i, count in enumerate(_COUNTS):
            for j in range(count):
                ours, theirs = f"stages.{i + 2}.{j}", f"stage{i + 2}.{j}"
                if j == 0:
                    names |= conv_norm(f"{ours}.short.0", f"{theirs}.branch1.0", f"{theirs}.branch1.1")
                    names |= conv_norm(f"{ours}.short.1", f"{theirs}.branch1.2", f"{theirs}.branch1.3")
                for k, at in enumerate((0, 3, 5)):
                    names |= conv_norm(f"{ours}.body.{k}", f"{theirs}.branch2.{at}", f"{theirs}.branch2.{at + 1}")
        return names

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution and the linear layer."""
        return Names({**conv_norm("top.conv", "conv5.0", "conv5.1"), **linear("fc", "fc")})


class _Unit(nn.Layer):
    """Two branches, interleaved.  x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    Of stride 1 the first branch is the first half of the channels as it is; else a depthwise and a 1x1 convolution.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        half = out_channels // 2
        seen = in_channels if stride > 1 else half
        self._half = half
        self.short = (
            nn.Sequential(_depthwise(in_channels, stride), nn.ConvBNAct(in_channels, half, 1)) if stride > 1 else None
        )
        self.body = nn.Sequential(nn.ConvBNAct(seen, half, 1), _depthwise(half, stride), nn.ConvBNAct(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H/stride, W/stride, K]."""
        if self.short is not None:
            a, b = self.short(x), self.body(x)
        else:
            a, b = ops.split(x, axis=3, sizes=[self._half, self._half])
            b = self.body(b)
        pairs = ops.stack([a, b], axis=4)  # [N, H, W, K/2, 2]
        return ops.flatten(pairs, start=3, end=4)


def _depthwise(channels: int, stride: int) -> nn.ConvBNAct:
    return nn.ConvBNAct(channels, channels, 3, stride, groups=channels, act="none")


def _stage(in_channels: int, out_channels: int, count: int) -> nn.Sequential:
    later = [_Unit(out_channels, out_channels, 1) for _ in range(count - 1)]
    return nn.Sequential(_Unit(in_channels, out_channels, 2), *later)
