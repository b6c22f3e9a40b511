"""DenseNet-121, 161, 169 and 201: every layer sees all maps before it (Huang et al. 2017, arXiv:1608.06993).

Letters: N batch, H W height and width, C channels in, K channels out, G growth.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.naming import conv, linear, norm
from suites.vision.backbones.staged import Stage, Staged

# depth -> (layers of each block, growth, channels of the stem)
_PLANS = {
    121: ((6, 12, 24, 16), 32, 64),
    161: ((6, 12, 36, 24), 48, 96),
    169: ((6, 12, 32, 32), 32, 64),
    201: ((6, 12, 48, 32), 32, 64),
}
_WITHIN = 4  # channels of the 1x1 convolution of a layer, as a multiple of the growth


@register("backbone")
class DenseNet(Staged):
    """Stem, four blocks of dense layers, a transition that halves map and channels between two of them.

    The maps of strides 4, 8 and 16 are those of the blocks' ends; that of stride 32 has the last norm and ReLU.

    Args:
        depth: 121, 161, 169 or 201.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as densenet121_imagenet; see docs/howto/pretrained.md.
        growth: G, channels that a layer adds; the depth's own when None.
    """

    schemes: tuple[str, ...] = ("torchvision", "torchvision_old")  # the first is timm's too

    def __init__(
        self,
        depth: Literal[121, 161, 169, 201] = 121,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
        growth: int | None = None,
    ) -> None:
        super().__init__()
        if depth not in _PLANS or (growth is not None and growth < 1):
            raise AttributeValueError(
                f"DenseNet: depth is {depth}, growth {growth}; depth must be one of {[*_PLANS]}, growth 1 or more"
            )
        self.strides = check_strides("DenseNet", out_strides, (2, 4, 8, 16, 32))
        self._counts, own, stem = _PLANS[depth]
        self._growth = own if growth is None else growth
        self._stem = stem * self._growth // own
        self.keep(self._plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def _plan(self) -> Iterator[Stage]:
        width = self._stem
        yield 2, width, partial(nn.ConvBNAct, 3, width, 7, 2)
        for i, count in enumerate(self._counts):
            out, last = width + count * self._growth, i == len(self._counts) - 1
            yield 4 << i, out, partial(_Stage, width, self._growth, count, first=i == 0, last=last)
            width = out // 2

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Torchvision's names; its published files have "norm.1" for "norm1"."""
        dot = "." if scheme == "torchvision_old" else ""
        names = {**conv("stages.0.conv", "features.conv0"), **norm("stages.0.norm", "features.norm0")}
        for i, count in enumerate(self._counts):
            ours = f"stages.{i + 1}"
            if i:
                names |= norm(f"{ours}.down.norm", f"features.transition{i}.norm")
                names |= conv(f"{ours}.down.conv", f"features.transition{i}.conv")
            for j in range(count):
                theirs = f"features.denseblock{i + 1}.denselayer{j + 1}"
                for k in (1, 2):
                    names |= norm(f"{ours}.layers.{j}.norm{k}", f"{theirs}.norm{dot}{k}")
                    names |= conv(f"{ours}.layers.{j}.conv{k}", f"{theirs}.conv{dot}{k}")
        return {**names, **norm(f"stages.{len(self._counts)}.norm", "features.norm5")}

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "classifier"))


class _Stage(nn.Layer):
    """What halves the map, then dense layers.  x: [N, H, W, C], y: [N, H/2, W/2, K]."""

    def __init__(self, in_channels: int, growth: int, count: int, first: bool, last: bool) -> None:
        super().__init__()
        self.down = nn.MaxPool2d(3, 2, padding=1) if first else _Transition(2 * in_channels, in_channels)
        self.layers = nn.LayerList(_DenseLayer(in_channels + i * growth, growth) for i in range(count))
        self.norm = nn.BatchNorm(in_channels + count * growth) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H/2, W/2, K]."""
        x = self.down(x)
        for layer in self.layers:
            x = ops.concat([x, layer(x)], axis=3)
        return x if self.norm is None else ops.relu(self.norm(x))


class _Transition(nn.Layer):
    """Norm, ReLU, a 1x1 convolution and the mean of 2x2.  x: [N, H, W, C], y: [N, floor(H/2), floor(W/2), K]."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm(in_channels)
        self.conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, floor(H/2), floor(W/2), K]."""
        return self.pool(self.conv(ops.relu(self.norm(x))))


class _DenseLayer(nn.Layer):
    """Norm, ReLU, 1x1; norm, ReLU, 3x3.  x: [N, H, W, C], y: [N, H, W, G]."""

    def __init__(self, in_channels: int, growth: int) -> None:
        super().__init__()
        within = _WITHIN * growth
        self.norm1, self.conv1 = nn.BatchNorm(in_channels), nn.Conv2d(in_channels, within, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm(within), nn.Conv2d(within, growth, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, G]."""
        x = self.conv1(ops.relu(self.norm1(x)))
        return self.conv2(ops.relu(self.norm2(x)))
