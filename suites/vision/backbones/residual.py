"""Residual blocks of ResNet, ResNeXt and SE-ResNeXt, and of HRNet, which is made of them too.

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from framework import nn, ops
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.weights import Source
from suites.vision.backbones.base import Block
from suites.vision.backbones.deformable import DeformConvBNAct
from suites.vision.backbones.naming import PADDLE, conv_norm
from suites.vision.backbones.naming import conv as conv_names
from suites.vision.backbones.squeeze import SqueezeExcite, rounded, squeeze_names

Variant = Literal["a", "b", "c", "d"]
EXPANSION = 4  # channels out of a bottleneck, as a multiple of its width


@dataclass(frozen=True)
class Plan:
    """How the blocks of a stage are made.

    Attributes:
        width: channels of the 3x3 convolutions; those of a bottleneck with groups have more, see `inner`.
        bottleneck: 1x1, 3x3 and 1x1 convolutions, else two of 3x3.
        stride: of the stage's first block.
        variant: see `ResNet`.
        dilation: of the 3x3 convolutions.
        zero_init: the last norm starts with scale 0.
        groups: of a bottleneck's 3x3 convolution (ResNeXt's cardinality).
        group_width: channels of a group, where `width` is 64.
        squeeze: a squeeze and excitation before the sum, of so many times fewer channels; 0 for none.
        deformable: a bottleneck's 3x3 convolution is deformable.
        modulated: its taps have shares, which is version 2.
        projected: the first block's shortcut is a convolution even where it keeps size and channels.
    """

    width: int
    bottleneck: bool
    stride: int = 1
    variant: Variant = "b"
    dilation: int = 1
    zero_init: bool = False
    groups: int = 1
    group_width: int = 64
    squeeze: int = 0
    deformable: bool = False
    modulated: bool = True
    projected: bool = False

    @property
    def out_channels(self) -> int:
        """K."""
        return self.width * EXPANSION if self.bottleneck else self.width

    @property
    def inner(self) -> int:
        """Channels of a bottleneck's 3x3 convolution."""
        return self.width * self.group_width // 64 * self.groups


class ResidualBlock(Block):
    """relu(body(x) + shortcut(x)).  x: [N, H, W, C], y: [N, H/stride, W/stride, K]."""

    def __init__(self, in_channels: int, plan: Plan, stride: int, dilation: int) -> None:
        super().__init__()
        width, out = plan.width, plan.out_channels
        self.in_channels, self.out_channels, self.shortcut = in_channels, out, True
        if plan.bottleneck:
            inner = plan.inner
            last = nn.ConvBNAct(inner, out, 1, act="none")
            early, late = (stride, 1) if plan.variant == "a" else (1, stride)
            if plan.deformable:
                middle: nn.Layer = DeformConvBNAct(inner, inner, late, plan.groups, dilation, modulated=plan.modulated)
            else:
                middle = nn.ConvBNAct(inner, inner, 3, late, groups=plan.groups, dilation=dilation)
            self.body = nn.Sequential(nn.ConvBNAct(in_channels, inner, 1, early), middle, last)
        else:
            last = nn.ConvBNAct(width, out, 3, dilation=dilation, act="none")
            self.body = nn.Sequential(nn.ConvBNAct(in_channels, width, 3, stride, dilation=dilation), last)
        if plan.zero_init:
            last.norm.add_parameter("scale", (out,), init.Constant(0.0))
        self.squeeze = SqueezeExcite(out, rounded(out / plan.squeeze)) if plan.squeeze else None
        self.short: nn.Layer | None = None
        self.pool: nn.Layer | None = None
        if stride > 1 or in_channels != out or plan.projected:
            pooled = plan.variant == "d" and stride > 1
            if pooled:  # padding below: an odd side gives as many cells as the body's padded convolution
                self.pool = nn.AvgPool2d(stride, padding=(0, stride - 1, 0, stride - 1), count_include_pad=False)
            self.short = nn.ConvBNAct(in_channels, out, 1, 1 if pooled else stride, act="none")
        self._pooled = plan.variant == "d"  # timm puts an empty layer where stages do not halve

    def forward(self, x: Tensor, inner: Tensor | None = None) -> Tensor:
        """x: [N, H, W, C], or `inner` for the body; y: [N, H/stride, W/stride, K]."""
        y = self.body(x if inner is None else inner)
        if self.squeeze is not None:
            y = self.squeeze(y)
        if self.pool is not None:
            x = self.pool(x)
        return ops.relu(y + (x if self.short is None else self.short(x)))

    def names(self, ours: str, theirs: str, scheme: str) -> dict[str, Source]:
        """What a scheme calls the tensors of the block that is `ours` here and `theirs` there.

        Torchvision's names are timm's too, where the shortcut of variant d has an empty layer before it.
        """
        found: dict[str, Source] = {}
        for i in range(len(self.body)):
            conv, norm = _conv_norm_of(scheme, theirs, i)
            found |= conv_norm(f"{ours}.body.{i}", conv, norm, paddle=scheme in PADDLE)
            if scheme in ("detectron2", "openmmlab", "paddledetection") and isinstance(self.body[i], DeformConvBNAct):
                found |= conv_names(f"{ours}.body.{i}.offset", f"{conv}_offset", bias=True)
        if self.squeeze is not None:
            found |= squeeze_names(f"{ours}.squeeze", f"{theirs}.se")
        if self.short is not None:
            at, short = int(self._pooled), "short" if self.pool is None else "short.conv"
            conv, norm = {
                "torchvision": (f"{theirs}.downsample.{at}", f"{theirs}.downsample.{at + 1}"),
                "openmmlab": (f"{theirs}.downsample.{at}", f"{theirs}.downsample.{at + 1}"),
                "detectron2": (f"{theirs}.shortcut", f"{theirs}.shortcut.norm"),
                "paddleclas": (f"{theirs}.short.conv", f"{theirs}.short.bn"),
                "paddledetection": (f"{theirs}.{short}.conv", f"{theirs}.{short}.norm"),
                "paddleseg": (f"{theirs}.short._conv", f"{theirs}.short._batch_norm"),
                "paddleseg_hrnet": (f"{theirs}.conv_down._conv", f"{theirs}.conv_down._batch_norm"),
            }[scheme]
            found |= conv_norm(f"{ours}.short", conv, norm, paddle=scheme in PADDLE)
        return found


def _conv_norm_of(scheme: str, block: str, i: int) -> tuple[str, str]:
    """Convolution and norm of layer i of a block's body."""
    return {
        "torchvision": (f"{block}.conv{i + 1}", f"{block}.bn{i + 1}"),
        "openmmlab": (f"{block}.conv{i + 1}", f"{block}.bn{i + 1}"),
        "detectron2": (f"{block}.conv{i + 1}", f"{block}.conv{i + 1}.norm"),
        "paddleclas": (f"{block}.conv{i}.conv", f"{block}.conv{i}.bn"),
        "paddledetection": (f"{block}.branch2{'abc'[i]}.conv", f"{block}.branch2{'abc'[i]}.norm"),
        "paddleseg": (f"{block}.conv{i}._conv", f"{block}.conv{i}._batch_norm"),
        "paddleseg_hrnet": (f"{block}.conv{i + 1}._conv", f"{block}.conv{i + 1}._batch_norm"),
    }[scheme]


def residual_stage(in_channels: int, count: int, plan: Plan, first_dilation: int = 1) -> nn.Sequential:
    """`count` blocks. The first, which would halve the map, keeps the dilation of the stage before (as torchvision)."""
    first = ResidualBlock(in_channels, plan, plan.stride, first_dilation)
    later = replace(plan, projected=False)
    rest = [ResidualBlock(plan.out_channels, later, 1, plan.dilation) for _ in range(count - 1)]
    return nn.Sequential(first, *rest)


def stage_names(
    stage: nn.Sequential, ours: str, theirs: Callable[[int], str], scheme: str = "torchvision"
) -> dict[str, Source]:
    """Names of all blocks of a stage; `theirs` gives that of block i."""
    found: dict[str, Source] = {}
    for i, block in enumerate(stage):
        assert isinstance(block, ResidualBlock)
        found |= block.names(f"{ours}.{i}", theirs(i), scheme)
    return found
