"""The network of MediaPipe's BlazeFace of the full range: smaller faces, on one map of stride 4.

Its residual blocks narrow the map between two depthwise convolutions; three steps of a pyramid lead back from stride
32. Source: Bazarevsky et al. 2019 (arXiv:1907.05047), section 3.2 for the blocks, and MediaPipe's published file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone

FULL_RANGE = "mediapipe_full_range"
# Of each block: channels between its two depthwise convolutions, channels out, stride.
_DOWN = (
    *((8, 32, 1), (8, 32, 1), (12, 48, 2), (12, 48, 1), (16, 64, 1), (24, 96, 2), (32, 128, 1), (32, 128, 1)),
    *((36, 144, 2), (48, 192, 1), (64, 256, 1), (96, 384, 2), (96, 384, 1), (96, 384, 1), (96, 384, 1)),
)
_TAPS = (10, 7, 4)  # blocks whose maps the pyramid joins, coarse ones first
# Of each step up: channels, and channels between in each of its blocks.
_UP = ((96, (48, 48)), (64, (32, 32)), (48, (24,)))


class FullRangeBackbone(Backbone):
    """Images [N, H, W, 3], H and W multiples of 32, to one map [N, H/4, W/4, 48]."""

    schemes: tuple[str, ...] = (FULL_RANGE,)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, (0, 1, 0, 1), initializer=nn.init.Kaiming())
        self.blocks = nn.LayerList()
        start, width = nn.init.Kaiming(slope=math.sqrt(2 * len(_DOWN) - 1)), 32
        for inner, out, stride in _DOWN:
            self.blocks.append(_Narrowing(width, inner, out, stride, start))
            width = out
        self.steps = nn.LayerList()
        for (out, inners), tap in zip(_UP, _TAPS, strict=True):
            self.steps.append(_Step(width, _DOWN[tap][1], out, inners, start))
            width = out
        self.strides, self.channels = (4,), (width,)
        self.finish()

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; one map [N, H/4, W/4, 48]."""
        x = ops.relu(self.stem(x))
        maps = []
        for block in self.blocks:
            x = block(x)
            maps.append(x)
        for step, tap in zip(self.steps, _TAPS, strict=True):
            x = step(x, maps[tap])
        return [x]

    def names_in(self, scheme: str) -> Names:
        """Names in MediaPipe's `face_detection_full_range.tflite`, whose convolutions stand in the order of ours."""
        plain, depthwise = ["stem"], list[str]()

        def block(path: str) -> None:
            depthwise.extend(f"{path}.depthwise.{k}" for k in range(2))
            plain.extend(f"{path}.pointwise.{k}" for k in range(2))

        for i in range(len(self.blocks)):
            block(f"blocks.{i}")
        for i, (_, inners) in enumerate(_UP):
            plain += [f"steps.{i}.above", f"steps.{i}.beside"]
            for k in range(len(inners)):
                block(f"steps.{i}.blocks.{k}")
        return Names(numbered("conv_2d", plain) | numbered("depthwise_conv_2d", depthwise))


def numbered(kind: str, paths: Sequence[str], first: int = 0) -> dict[str, Source]:
    """Names of convolutions with bias in a .tflite file, which numbers them in the order in which they run."""
    return {
        f"{path}.{word}": Source((f"{kind}.{first + i}.{word}",))
        for i, path in enumerate(paths)
        for word in ("weight", "bias")
    }


class _Narrowing(nn.Layer):
    """relu(1x1(depthwise(relu(1x1(depthwise(x))))) + x), narrow in between.  x: [N, H, W, C], y: [N, H/s, W/s, K]."""

    def __init__(self, channels: int, inner: int, out: int, stride: int, start: nn.init.Initializer) -> None:
        super().__init__()
        padding = (0, 1, 0, 1) if stride == 2 else 1
        self.depthwise = nn.LayerList(
            [
                nn.Conv2d(channels, channels, 3, stride, padding, groups=channels),
                nn.Conv2d(inner, inner, 3, 1, 1, groups=inner),
            ]
        )
        self.pointwise = nn.LayerList(
            [nn.Conv2d(channels, inner, 1, initializer=nn.init.Kaiming()), nn.Conv2d(inner, out, 1, initializer=start)]
        )
        self.wider, self.stride = out - channels, stride

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        y = ops.relu(self.pointwise[0](self.depthwise[0](x)))
        y = self.pointwise[1](self.depthwise[1](y))
        if self.stride == 2:
            x = ops.max_pool2d(x, kernel=2, stride=2)
        if self.wider:
            x = ops.pad(x, pads=(0, 0, 0, 0, 0, 0, 0, self.wider))
        return ops.relu(y + x)


class _Step(nn.Layer):
    """The coarser map, enlarged, and the finer one with as many channels, added up, then blocks."""

    def __init__(
        self, channels: int, beside: int, out: int, inners: tuple[int, ...], start: nn.init.Initializer
    ) -> None:
        super().__init__()
        self.above = nn.Conv2d(channels, out, 1, initializer=nn.init.Kaiming())
        self.beside = nn.Conv2d(beside, out, 1, initializer=nn.init.Kaiming())
        self.blocks = nn.LayerList(_Narrowing(out, inner, out, 1, start) for inner in inners)

    def forward(self, x: Tensor, finer: Tensor) -> Tensor:
        """x: [N, H, W, C]; finer: [N, 2H, 2W, C']; y: [N, 2H, 2W, K]."""
        y = ops.relu(self.beside(finer))
        y = y + ops.resize_bilinear(ops.relu(self.above(x)), like=y)
        for block in self.blocks:
            y = block(y)
        return y
