"""SqueezeNet 1.0 and 1.1: 1x1 convolutions that squeeze, 1x1 and 3x3 that expand (Iandola et al. 2016,
arXiv:1602.07360).

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.naming import conv
from suites.vision.backbones.staged import Stage, Staged

# version -> channels and kernel of the stem, and by stride the widths of fires: squeezed, of each half of the output
_PLANS: dict[str, tuple[tuple[int, int], dict[int, tuple[tuple[int, int], ...]]]] = {
    "1.0": (
        (96, 7),
        {4: ((16, 64), (16, 64), (32, 128)), 8: ((32, 128), (48, 192), (48, 192), (64, 256)), 16: ((64, 256),)},
    ),
    "1.1": (
        (64, 3),
        {4: ((16, 64), (16, 64)), 8: ((32, 128), (32, 128)), 16: ((48, 192), (48, 192), (64, 256), (64, 256))},
    ),
}


@register("backbone")
class SqueezeNet(Staged):
    """Stem and eight fires without batch norm; poolings between them. It ends at stride 16.

    Its first convolution has no padding, so a map has about one row less than H / s.

    Args:
        version: "1.0" or "1.1", which computes less than half of the former.
        out_strides: strides of the maps given out, of 2, 4, 8, 16; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        pretrained: name or file of published weights, such as squeezenet1_1_imagenet; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("torchvision",)
    cell_logits: ClassVar[bool] = True

    def __init__(
        self,
        version: Literal["1.0", "1.1"] = "1.1",
        out_strides: tuple[int, ...] = (4, 8, 16),
        freeze_at: int = 0,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if version not in _PLANS:
            raise AttributeValueError(f"SqueezeNet: version is {version!r}; it must be one of {[*_PLANS]}")
        self.strides = check_strides("SqueezeNet", out_strides, (2, 4, 8, 16))
        self._stem, self._fires = _PLANS[version]
        self.keep(self._plan())
        self.finish(freeze_at, pretrained=pretrained)

    def _plan(self) -> Iterator[Stage]:
        width, kernel = self._stem
        yield 2, width, partial(_Stem, width, kernel)
        for stride, fires in self._fires.items():
            out = 2 * fires[-1][1]
            yield stride, out, partial(_stage, width, fires)
            width = out

    def top(self) -> tuple[nn.Layer, int]:
        """The map as it is: each cell is classified."""
        return nn.Sequential(), self.channels[-1]

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Torchvision's names: a layer's number counts activations and poolings too."""
        names, at = conv("stages.0.conv", "features.0", bias=True), 2
        for i, fires in enumerate(self._fires.values()):
            for j in range(len(fires)):
                for leaf in ("squeeze", "expand1x1", "expand3x3"):
                    ours = f"stages.{i + 1}.{j + 1}.{leaf}"
                    names |= conv(ours, f"features.{at + 1 + j}.{leaf}", bias=True)
            at += 1 + len(fires)
        return names

    def top_names(self, scheme: str) -> Names:
        """Of the 1x1 convolution that gives the logits, a linear layer here."""
        return Names({"fc.weight": Source(("classifier.1.weight",), ones=2), "fc.bias": Source(("classifier.1.bias",))})


class _Stem(nn.Layer):
    """A convolution without padding, and ReLU.  x: [N, H, W, 3], y: [N, H', W', K]."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, kernel, 2, padding=0)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 3]; y: [N, H', W', K]."""
        return ops.relu(self.conv(x))


class _Fire(nn.Layer):
    """A 1x1 convolution, then 1x1 and 3x3 side by side, with ReLU.  x: [N, H, W, C], y: [N, H, W, K]."""

    def __init__(self, in_channels: int, squeezed: int, half: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeezed, 1)
        self.expand1x1, self.expand3x3 = nn.Conv2d(squeezed, half, 1), nn.Conv2d(squeezed, half, 3)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, K]."""
        x = ops.relu(self.squeeze(x))
        return ops.relu(ops.concat([self.expand1x1(x), self.expand3x3(x)], axis=3))


def _stage(width: int, fires: tuple[tuple[int, int], ...]) -> nn.Sequential:
    layers: list[nn.Layer] = [nn.MaxPool2d(3, 2, ceil_mode=True)]
    for squeezed, half in fires:
        layers.append(_Fire(width, squeezed, half))
        width = 2 * half
    return nn.Sequential(*layers)
