"""PP-LCNetV3: depthwise separable blocks with learned scales, as PP-OCRv4's networks use it (PaddleOCR, ppocr/modeling/
backbones/rec_lcnetv3.py).

Its authors train each convolution as a sum of several with batch norms and publish the one convolution that these fold
into. So the blocks here have a convolution with a bias and no batch norm: what is trained on is the folded form.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from framework import nn, ops
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.ocr.models.base import conv_source, norm_source, squeeze_source
from suites.vision.backbones.base import Backbone
from suites.vision.backbones.squeeze import SqueezeExcite, rounded

Stride = int | tuple[int, int]

# (kernel, channels out, stride, squeeze and excitation) of each block, by resolution.
_PAGES: tuple[tuple[tuple[int, int, Stride, bool], ...], ...] = (
    ((3, 32, 1, False),),
    ((3, 64, 2, False), (3, 64, 1, False)),
    ((3, 128, 2, False), (3, 128, 1, False)),
    ((3, 256, 2, False), *((5, 256, 1, False),) * 4),
    ((5, 512, 2, True), (5, 512, 1, True), (5, 512, 1, False), (5, 512, 1, False)),
)
_LINES: tuple[tuple[tuple[int, int, Stride, bool], ...], ...] = (
    ((3, 32, 1, False),),
    ((3, 64, 1, False), (3, 64, 1, False)),
    ((3, 128, (2, 1), False), (3, 128, 1, False)),
    ((3, 256, (1, 2), False), *((5, 256, 1, False),) * 4),
    ((5, 512, (2, 1), True), (5, 512, 1, True), (5, 512, (2, 1), False), (5, 512, 1, False)),
)
_DIVISOR = 16
_STEM = 16
_OUT = (16, 24, 56, 480)  # channels of the four maps of pages, before scaling
# Numbers of Paddle's layers in the published files: first of the folded convolutions, the stem's convolution and batch
# norm, squeeze and excitation, the 1x1 convolutions of the maps.
_NUMBERS = {
    "pages": (394, "conv2d_0", "batch_norm2d_0", (96, 107), 131),
    "lines": (157, "conv2d_10", "batch_norm2d_2", (106, 117), 0),
}


class Affine(nn.Layer):
    """y = scale x + bias with one number each ("LAB").  x, y: [N, H, W, C]."""

    scale: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_parameter("scale", (1,), init.Constant(1.0))
        self.add_parameter("bias", (1,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        return x * self.scale + self.bias


class Folded(nn.Layer):
    """Convolution, affine, and hard swish with an affine of its own.  x: [N, H, W, C], y: [N, H', W', K].

    Args:
        in_channels: C.
        out_channels: K.
        kernel: R and S.
        stride: step; of a number 2 there is no activation.
        groups: of channels.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: Stride = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, groups=groups)
        self.affine = Affine()
        self.active = Affine() if stride != 2 else None

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        y = self.affine(self.conv(x))
        return y if self.active is None else self.active(ops.hardswish(y))


class LcBlock(nn.Layer):
    """Depthwise convolution, squeeze and excitation where wanted, 1x1 convolution.  x: [N, H, W, C], y: [N, H', W', K].

    Args:
        in_channels: C.
        out_channels: K.
        kernel: of the depthwise convolution.
        stride: of it.
        squeeze: whether there is squeeze and excitation.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: Stride, squeeze: bool) -> None:
        super().__init__()
        self.depthwise = Folded(in_channels, in_channels, kernel, stride, in_channels)
        self.squeeze = SqueezeExcite(in_channels, in_channels // 4, "hardsigmoid") if squeeze else None
        self.pointwise = Folded(in_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        x = self.depthwise(x)
        return self.pointwise(x if self.squeeze is None else self.squeeze(x))


@register("backbone")
class PPLCNetV3(Backbone):
    """PP-LCNetV3 for pages, with maps of strides 4, 8, 16 and 32, or for lines, with one of 1/16 height and 1/4 width.

    Args:
        form: "pages" or "lines".
        scale: factor on all channel numbers, rounded to multiples of 16.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("ppocr",)

    def __init__(
        self, form: Literal["pages", "lines"] = "pages", scale: float = 0.75, pretrained: str | None = None
    ) -> None:
        super().__init__()
        self.form = form
        width = rounded(_STEM * scale, _DIVISOR)
        self.stem = nn.ConvBNAct(3, width, 3, 2, act="none")
        stages: list[nn.Layer] = []
        widths = []
        for plan in _PAGES if form == "pages" else _LINES:
            blocks: list[nn.Layer] = []
            for kernel, out, stride, squeeze in plan:
                out = rounded(out * scale, _DIVISOR)
                blocks.append(LcBlock(width, out, kernel, stride, squeeze))
                width = out
            stages.append(nn.Sequential(*blocks))
            widths.append(width)
        self.stages = nn.LayerList(stages)
        self.maps: nn.LayerList | None = None
        if form == "pages":
            self.strides, self.channels = (4, 8, 16, 32), tuple(int(c * scale) for c in _OUT)
            pairs = zip(widths[1:], self.channels, strict=True)
            self.maps = nn.LayerList([nn.Conv2d(channels, out, 1) for channels, out in pairs])
        else:
            self.strides, self.channels = (16,), (width,)
        self.finish(pretrained=pretrained)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/s, W/s, C_s] of pages, [N, H/16, W/4, C] of lines."""
        x = self.stem(x)
        seen = []
        for stage in self.stages:
            x = stage(x)
            seen.append(x)
        if self.maps is None:
            return [x]
        return [conv(y) for conv, y in zip(self.maps, seen[1:], strict=True)]

    def answers(self) -> dict[str, np.ndarray]:
        """None: files have the backbone with what stands behind it, which answers."""
        return {}

    def names_in(self, scheme: str) -> Names:
        """Names in PP-OCRv4's exported files."""
        first, stem, norm, squeezes, maps = _NUMBERS[self.form]
        names: dict[str, Source] = {**conv_source("stem.conv", stem, bias=False), **norm_source("stem.norm", norm)}
        number, squeezed = 0, iter(squeezes)
        for i, stage in enumerate(self.stages):
            for j, block in enumerate(stage):  # type: ignore[arg-type, var-annotated]
                place = f"stages.{i}.{j}"
                for part in ("depthwise", "pointwise"):
                    names |= _folded(f"{place}.{part}", first, number, getattr(block, part).active is not None)
                    number += 1
                if block.squeeze is not None:
                    names |= squeeze_source(f"{place}.squeeze", next(squeezed))
        for k in range(len(self.maps or ())):
            names |= conv_source(f"maps.{k}", f"conv2d_{maps + k}")
        return Names(names)


def _folded(ours: str, first: int, number: int, active: bool) -> dict[str, Source]:
    """Names of the `Folded` of that number."""
    names = conv_source(f"{ours}.conv", f"conv2d_{first + number}")
    parts = [("affine", f"mobile_one_block_{number}")] + ([("active", f"whswish_b_{number + 1}")] if active else [])
    for part, theirs in parts:
        names |= {f"{ours}.{part}.scale": Source((f"{theirs}.w_0",)), f"{ours}.{part}.bias": Source((f"{theirs}.w_1",))}
    return names
