"""ConvNeXt-T, S and B: a ResNet made over after Swin Transformers (Liu et al. 2022, arXiv:2201.03545).

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.naming import conv, layer_norm, linear
from suites.vision.backbones.staged import Stage, Staged

# size -> blocks of each stage, channels of the first
PLANS = {"tiny": ((3, 3, 9, 3), 96), "small": ((3, 3, 27, 3), 96), "base": ((3, 3, 27, 3), 128)}
_EPS = 1e-6
_EXPANSION = 4
_SCALE = 1e-6  # that a block's branch starts with

# What a scheme calls the stem's layers, those that halve before stage i, and the layers of block j of stage i.
_NAMES = {
    "torchvision": (("features.0.0", "features.0.1"), ("block.0", "block.2", "block.3", "block.5", "layer_scale")),
    "timm": (("stem.0", "stem.1"), ("conv_dw", "norm", "mlp.fc1", "mlp.fc2", "gamma")),
    "transformers": (
        ("embeddings.patch_embeddings", "embeddings.layernorm"),
        ("dwconv", "layernorm", "pwconv1", "pwconv2", "layer_scale_parameter"),
    ),
}


@register("backbone")
class ConvNeXt(Staged):
    """Patches of 4 x 4, then four stages: depthwise 7x7, layer norm, a linear layer to 4 C and one back, scaled.

    Args:
        size: "tiny", "small" or "base".
        out_strides: strides of the maps given out, of 4, 8, 16, 32; the network ends at the last.
        freeze_at: how much is not trained: 0 nothing, 1 the stem, 2 the first stage too, and so on up to 5.
        pretrained: name or file of published weights, such as convnext_tiny_imagenet; see docs/howto/pretrained.md.
        width: channels of the first stage, then twice as many each; the size's own when None.
    """

    schemes: tuple[str, ...] = ("torchvision", "timm", "transformers")

    def __init__(
        self,
        size: Literal["tiny", "small", "base"] = "tiny",
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        freeze_at: int = 0,
        pretrained: str | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__()
        if size not in PLANS or (width is not None and width < 1):
            raise AttributeValueError(
                f"ConvNeXt: size is {size!r}, width {width}; size must be one of {[*PLANS]}, width 1 or more"
            )
        self.strides = check_strides("ConvNeXt", out_strides, (4, 8, 16, 32))
        self._counts, own = PLANS[size]
        self._width = own if width is None else width
        self.unread = (r"^layernorm\.",)  # of a file that is no whole classifier
        self.stem = nn.Sequential(nn.Conv2d(3, self._width, 4, 4, padding=0), nn.LayerNorm(self._width, _EPS))
        self.keep(self._plan())
        self.finish(freeze_at, pretrained=pretrained)

    def _plan(self) -> Iterator[Stage]:
        for i, count in enumerate(self._counts):
            out = self._width << i
            yield 4 << i, out, partial(_Stage, out, count, halves=i > 0)

    def top(self) -> tuple[nn.Layer, int]:
        """The mean over the map, then a layer norm."""
        return _Top(self.channels[-1]), self.channels[-1]

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Names of torchvision, timm or transformers."""
        stem, block = _NAMES[scheme]
        depth, within, wide, narrow, scale = block
        names = {**conv("stem.0", stem[0], bias=True), **layer_norm("stem.1", stem[1])}
        for i, count in enumerate(self._counts):
            if i:
                down = _down_name(scheme, i)
                names |= layer_norm(f"stages.{i}.norm", f"{down}.0")
                names |= conv(f"stages.{i}.down", f"{down}.1", bias=True)
            for j in range(count):
                ours, theirs = f"stages.{i}.blocks.{j}", _block_name(scheme, i, j)
                names |= conv(f"{ours}.depth", f"{theirs}.{depth}", bias=True)
                names |= layer_norm(f"{ours}.norm", f"{theirs}.{within}")
                names |= linear(f"{ours}.wide", f"{theirs}.{wide}") | linear(f"{ours}.narrow", f"{theirs}.{narrow}")
                ones = 2 if scheme == "torchvision" else 0
                names[f"{ours}.factor"] = Source((f"{theirs}.{scale}",), ones=ones)
        return names

    def place_in(self, scheme: str) -> str:
        """Transformers' classifiers have it under the model's name."""
        return "convnext." if scheme == "transformers" else ""

    def top_names(self, scheme: str) -> Names:
        """Of the layer norm and the linear layer."""
        norm, fc = {
            "torchvision": ("classifier.0", "classifier.2"),
            "timm": ("head.norm", "head.fc"),
            "transformers": ("convnext.layernorm", "classifier"),
        }[scheme]
        return Names({**layer_norm("top.norm", norm), **linear("fc", fc)})


def _down_name(scheme: str, stage: int) -> str:
    return {
        "torchvision": f"features.{2 * stage}",
        "timm": f"stages.{stage}.downsample",
        "transformers": f"encoder.stages.{stage}.downsampling_layer",
    }[scheme]


def _block_name(scheme: str, stage: int, block: int) -> str:
    return {
        "torchvision": f"features.{2 * stage + 1}.{block}",
        "timm": f"stages.{stage}.blocks.{block}",
        "transformers": f"encoder.stages.{stage}.layers.{block}",
    }[scheme]


class _Stage(nn.Layer):
    """What halves the map, if it is halved, then blocks.  x: [N, H, W, C], y: [N, H', W', K]."""

    def __init__(self, channels: int, count: int, halves: bool) -> None:
        super().__init__()
        self.norm: nn.LayerNorm | None = None
        if halves:
            self.norm = nn.LayerNorm(channels // 2, _EPS)
            self.down = nn.Conv2d(channels // 2, channels, 2, 2, padding=0)
        self.blocks = nn.LayerList(_Block(channels) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        if self.norm is not None:
            x = self.down(self.norm(x))
        for block in self.blocks:
            x = block(x)
        return x


class _Block(nn.Layer):
    """x + factor * narrow(gelu(wide(norm(depth(x))))).  x, y: [N, H, W, C]."""

    factor: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, _EPS)
        self.wide = nn.Linear(channels, _EXPANSION * channels, initializer=init.TruncatedNormal())
        self.narrow = nn.Linear(_EXPANSION * channels, channels, initializer=init.TruncatedNormal())
        self.add_parameter("factor", (channels,), init.Constant(_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        return x + self.narrow(ops.gelu(self.wide(self.norm(self.depth(x))))) * self.factor


class _Top(nn.Layer):
    """[N, H, W, C] to [N, C]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool, self.norm = nn.GlobalAvgPool2d(), nn.LayerNorm(channels, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]."""
        return self.norm(self.pool(x))
