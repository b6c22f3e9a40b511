"""ResNet-18 to 152 in the variants b, c and d (He et al. 2016, arXiv:1512.03385; He et al. 2019, arXiv:1812.01187).

Letters: N batch, H W height and width, C_s channels of the map of stride s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from framework import nn
from framework.errors import AttributeValueError
from framework.tensor import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import conv_norm, linear
from suites.vision.backbones.residual import Plan, Variant, residual_stage, stage_names

# depth -> (blocks of each stage, whether the blocks are bottlenecks)
_PLANS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}


@register("backbone")
class ResNet(Backbone):
    """Stem, max pooling and four stages of residual blocks with ReLU.

    Variant b is torchvision's ("v1.5": a bottleneck halves the map in its 3x3 convolution); c has a stem of three 3x3
    convolutions; d ("vd") is c with an average pool before the 1x1 convolution of a shortcut that halves the map.

    Parameters are named as follows: `stem.0` the 7x7 convolution with its norm (`stem.0`, `.1`, `.2` in c and d),
    `stages.I.J` block J of stage I + 1, in it `body.0`, `body.1` (, `body.2`) and `short`; below each `conv.weight`,
    `norm.scale`, `norm.bias`, `norm.running_mean` and `norm.running_var`.

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
        self._build(depth, width, out_strides, output_stride, Plan(width, True, variant=variant, zero_init=zero_init))
        self.finish(freeze_at, frozen_norm, pretrained)

    def _build(self, depth: int, width: int, out_strides: Sequence[int], output_stride: int, block: Plan) -> None:
        """The stem and the stages; `block` says how all blocks are made."""
        who = type(self).__name__
        _check(who, depth, block.variant, width, output_stride)
        self.strides = check_strides(who, out_strides, [s for s in (4, 8, 16, 32) if s <= output_stride])
        counts, bottleneck = _PLANS[depth]
        self.stem = _stem(width, block.variant)
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
            plan = replace(block, width=width << i, bottleneck=bottleneck, stride=step, dilation=dilation)
            self.stages.append(residual_stage(at, count, plan, previous))
            at = plan.out_channels
            taps[stride] = (i, at)
        self._taps = tuple(taps[s][0] for s in self.strides)
        self.channels = tuple(taps[s][1] for s in self.strides)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem, then stage after stage."""
        return [[self.stem], *([stage] for stage in self.stages)]

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names, which timm shares."""
        if len(self.stem) == 1:
            names = conv_norm("stem.0", "conv1", "bn1")
        else:  # conv1 is a sequence: conv, norm, relu, conv, norm, relu, conv
            names = conv_norm("stem.0", "conv1.0", "conv1.1") | conv_norm("stem.1", "conv1.3", "conv1.4")
            names |= conv_norm("stem.2", "conv1.6", "bn1")
        for i, stage in enumerate(self.stages):
            assert isinstance(stage, nn.Sequential)
            names |= stage_names(stage, f"stages.{i}", f"layer{i + 1}")
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


def _stem(width: int, variant: Variant) -> nn.Sequential:
    """[N, H, W, 3] to [N, H/2, W/2, width]."""
    if variant == "b":
        return nn.Sequential(nn.ConvBNAct(3, width, 7, 2))
    half = width // 2
    return nn.Sequential(nn.ConvBNAct(3, half, 3, 2), nn.ConvBNAct(half, half, 3), nn.ConvBNAct(half, width, 3))


def _check(who: str, depth: int, variant: str, width: int, output_stride: int) -> None:
    allowed: list[tuple[str, object, list[object]]] = [
        ("depth", depth, [*_PLANS]),
        ("variant", variant, ["b", "c", "d"]),
        ("output_stride", output_stride, [8, 16, 32]),
    ]
    for name, value, values in allowed:
        if value not in values:
            raise AttributeValueError(f"{who}: {name} is {value!r}; it must be one of {values}")
    if width < 2 or width % 2:
        raise AttributeValueError(f"{who}: width is {width}; it must be even, 2 or more")
