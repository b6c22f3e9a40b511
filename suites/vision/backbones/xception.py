"""Aligned Xception-41, 65 and 71: separable convolutions all the way (Chen et al. 2018, arXiv:1802.02611, section 3.2).

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.vision.backbones.base import Backbone, check_strides

_EPS = 1e-3

# depth -> (channels and stride of the blocks of the entry flow, blocks of the middle flow)
_PLANS: dict[int, tuple[tuple[tuple[int, int], ...], int]] = {
    41: (((128, 2), (256, 2), (728, 2)), 8),
    65: (((128, 2), (256, 2), (728, 2)), 16),
    71: (((128, 2), (256, 1), (256, 2), (728, 1), (728, 2)), 16),
}


@register("backbone")
class Xception(Backbone):
    """Stem, entry, middle and exit flow; a batch norm behind every depthwise and every 1x1 convolution.

    The maps of strides 2, 4 and 8 are taken inside of a block, before its last convolution halves them, as DeepLabV3+
    takes its fine map; that of stride 16, where the network goes on to 32, behind the middle flow. Any image size will
    do: a map has ceil(H / s) rows.

    Args:
        depth: 41, 65 or 71.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32 up to `output_stride`. The whole network is there
            in any case.
        output_stride: least resolution of the maps, 1 / 32, 1 / 16 or 1 / 8 of the image; blocks that would go below
            dilate their depthwise convolutions instead.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of weights of ours; see docs/howto/pretrained.md.
    """

    def __init__(
        self,
        depth: Literal[41, 65, 71] = 65,
        out_strides: tuple[int, ...] = (4, 16),
        output_stride: Literal[8, 16, 32] = 16,
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("Xception", out_strides, [s for s in (2, 4, 8, 16, 32) if s <= output_stride])
        self._output_stride = output_stride
        entry, middle = _PLANS[depth]
        self.stem = nn.Sequential(nn.ConvBNAct(3, 32, 3, 2, norm_eps=_EPS), nn.ConvBNAct(32, 64, 3, norm_eps=_EPS))
        self.blocks = nn.LayerList()
        self._at, self._stride, self._dilation = 64, 2, 1
        self._places: list[tuple[int, int]] = []  # of each block: stride before it, stride after it
        for channels, stride in entry:
            self._append((channels,) * 3, stride, "conv")
        for _ in range(middle):
            self._append((728,) * 3, 1, "sum")
        self._append((728, 1024, 1024), 2, "conv")
        self._append((1536, 1536, 2048), 1, "none")
        self._taps = self._choose()
        tapped = [(self._layers()[i], inside) for i, inside in self._taps.items()]
        self.channels = tuple(block.inner_channels if inside else block.out_channels for block, inside in tapped)
        self.as_published = output_stride == 32
        self.finish(freeze_at, frozen_norm, pretrained)

    def _append(self, channels: tuple[int, int, int], stride: int, shortcut: Literal["conv", "sum", "none"]) -> None:
        """One more block, which dilates by what blocks before it would have halved."""
        wanted, dilation = stride, self._dilation
        if self._stride * stride > self._output_stride:
            stride = 1
            self._dilation *= wanted
        self.blocks.append(_XceptionBlock(self._at, channels, stride, dilation, shortcut))
        self._places.append((self._stride, self._stride * stride))
        self._at, self._stride = channels[-1], self._stride * stride

    def _layers(self) -> list[_XceptionBlock]:
        return [block for block in self.blocks if isinstance(block, _XceptionBlock)]

    def _choose(self) -> dict[int, bool]:
        """The blocks with the wanted maps, in order, and whether each is taken inside of its block."""
        found: dict[int, bool] = {}
        for s in self.strides:
            if s == self._output_stride:
                found[len(self._places) - 1] = False
                continue
            halving = next(i for i, (before, after) in enumerate(self._places) if before == s < after)
            found[halving if s < 16 else halving - 1] = s < 16
        return found

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem, then the blocks by the stride at which they end."""
        found: dict[int, list[nn.Layer]] = {2: [self.stem]}
        for block, (_, after) in zip(self.blocks, self._places, strict=True):
            found.setdefault(after, []).append(block)
        return list(found.values())

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        x = self.stem(x)
        maps: list[Tensor] = []
        for i, block in enumerate(self._layers()):
            inner, x = block.both(x)
            if i in self._taps:
                maps.append(inner if self._taps[i] else x)
        return maps


class _XceptionBlock(nn.Layer):
    """Three separable convolutions and a shortcut.  x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    With a shortcut, a ReLU goes before each separable convolution and none behind; without one, behind each of its two
    norms.

    Args:
        in_channels: C.
        channels: of the three; the last is K.
        stride: of the last one.
        dilation: of the depthwise convolutions.
        shortcut: "conv", a 1x1 convolution and a norm; "sum", x itself; or "none".
    """

    def __init__(
        self,
        in_channels: int,
        channels: tuple[int, int, int],
        stride: int,
        dilation: int,
        shortcut: Literal["conv", "sum", "none"],
    ) -> None:
        super().__init__()
        self.inner_channels, self.out_channels = channels[1:]
        self._before = shortcut != "none"
        self._sum = shortcut == "sum"
        act = "none" if self._before else "relu"
        widths = (in_channels, *channels)
        self.body = nn.LayerList(
            _separable(widths[i], widths[i + 1], stride if i == 2 else 1, dilation, act) for i in range(3)
        )
        self.short: nn.Layer | None = None
        if shortcut == "conv":
            self.short = nn.ConvBNAct(in_channels, channels[-1], 1, stride, act="none", norm_eps=_EPS)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Behind the second separable convolution, [N, H, W, inner_channels], and y."""
        inner = y = x
        for i, layer in enumerate(self.body):
            y = layer(ops.relu(y) if self._before else y)
            if i == 1:
                inner = y
        if self.short is not None:
            y = y + self.short(x)
        return inner, y + x if self._sum else y

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H/stride, W/stride, K]."""
        return self.both(x)[1]


def _separable(in_channels: int, out_channels: int, stride: int, dilation: int, act: str) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvBNAct(in_channels, in_channels, 3, stride, in_channels, dilation, act=act, norm_eps=_EPS),
        nn.ConvBNAct(in_channels, out_channels, 1, act=act, norm_eps=_EPS),
    )
