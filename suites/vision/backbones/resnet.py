"""ResNet-18 to 152 in the variants b, c and d (He et al. 2016, arXiv:1512.03385; He et al. 2019, arXiv:1812.01187).

Letters: N batch, H W height and width, C_s channels of the map of stride s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensor import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import CONV_AXES, linear

Variant = Literal["b", "c", "d"]

# depth -> (blocks of each stage, whether the blocks are bottlenecks)
_PLANS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}
_EXPANSION = 4  # channels out of a bottleneck, as a multiple of its width


@register("backbone")
class ResNet(Backbone):
    """Stem, max pooling and four stages of residual blocks with ReLU.

    Variant b is torchvision's ("v1.5": a bottleneck halves the map in its 3x3 convolution); c has a stem of three 3x3
    convolutions; d ("vd") is c with an average pool before the 1x1 convolution of a shortcut that halves the map.

    Parameters are named as follows; `torchvision_name` translates (variant b):
    `stem.0` the 7x7 convolution with its norm (`stem.0`, `.1`, `.2` in c and d), `stages.I.J` block J of stage I + 1,
    in it `body.0`, `body.1` (, `body.2`) and `short`; below each `conv.weight`, `norm.scale`, `norm.bias`,
    `norm.running_mean` and `norm.running_var`.

    Args:
        depth: 18, 34, 50, 101 or 152.
        variant: b, c or d.
        width: channels of the stem's output; the stages have 1, 2, 4 and 8 times as many, bottlenecks four times that.
        out_strides: strides of the maps given out, of 4, 8, 16, 32 up to `output_stride`; the network ends at the last.
        output_stride: 32, or 16 or 8 to keep maps large: later stages dilate their convolutions instead of halving.
        freeze_at: how much is not trained: 0 nothing, 1 the stem, 2 the first stage too, and so on up to 5.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        zero_init: the last norm of each block starts with scale 0, so that each block starts as the identity.
        pretrained: name or file of published weights; see docs/pretrained.md.
    """

    schemes: ClassVar[tuple[str, ...]] = ("torchvision",)  # timm's too

    def __init__(
        self,
        depth: Literal[18, 34, 50, 101, 152] = 50,
        variant: Variant = "b",
        width: int = 64,
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        output_stride: Literal[8, 16, 32] = 32,
        freeze_at: int = 0,
        frozen_norm: bool = False,
        zero_init: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        _check(depth, variant, width, output_stride)
        self.strides = check_strides("ResNet", out_strides, [s for s in (4, 8, 16, 32) if s <= output_stride])
        counts, bottleneck = _PLANS[depth]
        self._variant = variant
        self.stem = _stem(width, variant)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = nn.LayerList()
        at, stride, dilation, taps = width, 4, 1, {}
        for i, count in enumerate(counts):
            step, previous = (1 if i == 0 else 2), dilation
            if stride * step > output_stride:
                step, dilation = 1, 2 * dilation
            stride *= step
            if stride > self.strides[-1]:
                break
            plan = _Plan(width << i, step, bottleneck, variant, dilation, zero_init)
            self.stages.append(_stage(at, count, plan, previous))
            at = plan.out_channels
            taps[stride] = (i, at)
        self._taps = tuple(taps[s][0] for s in self.strides)
        self.channels = tuple(taps[s][1] for s in self.strides)
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem, then stage after stage."""
        return [[self.stem], *([stage] for stage in self.stages)]

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names, which timm shares."""
        names = {
            ours: Source((torchvision_name(ours, self._variant),), CONV_AXES if ".conv." in ours else None)
            for ours in self.state_dict()
        }
        coarser = [rf"^layer[{len(self.stages) + 1}-4]\."] if len(self.stages) < 4 else []
        return Names(names, (r"^fc\.", *coarser))

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "fc"))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/s, W/s, C_s]."""
        x = self.pool(self.stem(x))
        maps = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i in self._taps:
                maps.append(x)
        return maps


@dataclass(frozen=True)
class _Plan:
    """How the blocks of a stage are made."""

    width: int
    stride: int
    bottleneck: bool
    variant: Variant
    dilation: int
    zero_init: bool

    @property
    def out_channels(self) -> int:
        return self.width * _EXPANSION if self.bottleneck else self.width


class _Block(nn.Layer):
    """A residual block: relu(body(x) + shortcut(x)).  x: [N, H, W, C], y: [N, H/stride, W/stride, K]."""

    def __init__(self, in_channels: int, plan: _Plan, stride: int, dilation: int) -> None:
        super().__init__()
        width, out = plan.width, plan.out_channels
        if plan.bottleneck:
            last = nn.ConvBNAct(width, out, 1, act="none")
            self.body = nn.Sequential(
                nn.ConvBNAct(in_channels, width, 1), nn.ConvBNAct(width, width, 3, stride, dilation=dilation), last
            )
        else:
            last = nn.ConvBNAct(width, out, 3, dilation=dilation, act="none")
            self.body = nn.Sequential(nn.ConvBNAct(in_channels, width, 3, stride, dilation=dilation), last)
        if plan.zero_init:
            last.norm.add_parameter("scale", (out,), init.Constant(0.0))
        self.short: nn.Layer | None = None
        self.pool: nn.Layer | None = None
        if stride > 1 or in_channels != out:
            pooled = plan.variant == "d" and stride > 1
            if pooled:  # ceil_mode: an odd side gives as many cells as the body's padded convolution
                self.pool = nn.AvgPool2d(stride, ceil_mode=True, count_include_pad=False)
            self.short = nn.ConvBNAct(in_channels, out, 1, 1 if pooled else stride, act="none")

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H/stride, W/stride, K]."""
        y = self.body(x)
        if self.pool is not None:
            x = self.pool(x)
        return ops.relu(y + (x if self.short is None else self.short(x)))


def _stage(in_channels: int, count: int, plan: _Plan, first_dilation: int) -> nn.Sequential:
    """`count` blocks. The first, which would halve the map, keeps the dilation of the stage before (as torchvision)."""
    first = _Block(in_channels, plan, plan.stride, first_dilation)
    return nn.Sequential(first, *[_Block(plan.out_channels, plan, 1, plan.dilation) for _ in range(count - 1)])


def _stem(width: int, variant: Variant) -> nn.Sequential:
    """[N, H, W, 3] to [N, H/2, W/2, width]."""
    if variant == "b":
        return nn.Sequential(nn.ConvBNAct(3, width, 7, 2))
    half = width // 2
    return nn.Sequential(nn.ConvBNAct(3, half, 3, 2), nn.ConvBNAct(half, half, 3), nn.ConvBNAct(half, width, 3))


def _check(depth: int, variant: str, width: int, output_stride: int) -> None:
    allowed: list[tuple[str, object, list[object]]] = [
        ("depth", depth, [*_PLANS]),
        ("variant", variant, ["b", "c", "d"]),
        ("output_stride", output_stride, [8, 16, 32]),
    ]
    for name, value, values in allowed:
        if value not in values:
            raise AttributeValueError(f"ResNet: {name} is {value!r}; it must be one of {values}")
    if width < 2 or width % 2:
        raise AttributeValueError(f"ResNet: width is {width}; it must be even, 2 or more")


def torchvision_name(name: str, variant: Variant = "b") -> str:
    """What torchvision (and timm) call the parameter or buffer `name` of a ResNet; of variants c and d only timm.

    Their convolution weights are [K, C, R, S]: transpose them to [K, R, S, C] by (0, 2, 3, 1).

    >>> torchvision_name("stages.1.0.body.2.norm.scale")
    'layer2.0.bn3.weight'
    """
    *place, kind, leaf = name.split(".")
    norm = {"scale": "weight"}.get(leaf, leaf)
    leaf = leaf if kind == "conv" else norm
    if place[0] == "stem":
        # Of c and d, `conv1` is a sequence: conv, norm, relu, conv, norm, relu, conv.
        if variant != "b" and (kind == "conv" or place[1] != "2"):
            return f"conv1.{3 * int(place[1]) + (kind != 'conv')}.{leaf}"
        return f"{'conv' if kind == 'conv' else 'bn'}1.{leaf}"
    block = f"layer{int(place[1]) + 1}.{place[2]}"
    if place[3] == "short":
        pooled = variant == "d"  # a pool stands before the convolution, of 1x1 in the first stage
        return f"{block}.downsample.{(kind != 'conv') + pooled}.{leaf}"
    return f"{block}.{'conv' if kind == 'conv' else 'bn'}{int(place[4]) + 1}.{leaf}"
