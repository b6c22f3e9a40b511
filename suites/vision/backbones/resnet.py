"""ResNet-18 to 152 in the variants a to d (He et al. 2016, arXiv:1512.03385; He et al. 2019, arXiv:1812.01187).

Letters: N batch, H W height and width, C_s channels of the map of stride s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Origins, Source
from suites.vision.backbones.base import Backbone, Block, Place, check_strides
from suites.vision.backbones.naming import PADDLE, conv_norm, linear, spread_over_frames
from suites.vision.backbones.residual import Plan, ResidualBlock, Variant, residual_stage, stage_names

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

    Variant b is torchvision's ("v1.5": a bottleneck halves the map in its 3x3 convolution); a halves it in the first
    1x1 convolution, as the first weights and those that Detectron2 starts from; c is b with a stem of three 3x3
    convolutions; d ("vd") is c with an average pool before the 1x1 convolution of a shortcut that halves the map.

    Parameters are named as follows: `stem.0` the 7x7 convolution with its norm (`stem.0`, `.1`, `.2` in c and d),
    `stages.I.J` block J of stage I + 1, in it `body.0`, `body.1` (, `body.2`) and `short`; below each `conv.weight`,
    `norm.scale`, `norm.bias`, `norm.running_mean` and `norm.running_var`.

    Args:
        depth: 18, 34, 50, 101 or 152.
        variant: a, b, c or d.
        width: channels of the stem's output; the stages have 1, 2, 4 and 8 times as many, bottlenecks four times that.
        out_strides: strides of the maps given out, of 4, 8, 16, 32 up to `output_stride`; the network ends at the last.
        output_stride: 32, or 16 or 8 to keep maps large: later stages dilate their convolutions instead of halving.
        freeze_at: how much is not trained: 0 nothing, 1 the stem, 2 the first stage too, and so on up to 5.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        zero_init: the last norm of each block starts with scale 0, so that each block starts as the identity.
        deformable: strides of the stages whose 3x3 convolutions are deformable ("dcn"), of 8, 16, 32; of bottlenecks
            only.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        in_channels: of the image; with 3 M of them, M frames laid side by side, weights of networks for 3 are spread.
        stem: channels of three 3x3 convolutions in place of the variant's stem, such as PSPNet's (64, 64, 128).
        modulated: taps of deformable convolutions have shares, which is version 2; version 1 has none.
        projected: depths 18 and 34 have a convolution in the shortcut of their first block too, as those of PaddleClas
            and PaddleDetection, whose weights want it; deeper networks have it anyway.
        early_dilation: the first block of a stage that dilates has the stage's dilation, as PaddleSeg's, whose weights
            want it; else that of the stage before, as torchvision's.
    """

    # The first is timm's too; see `_build` for PaddleSeg's.
    schemes: tuple[str, ...] = ("torchvision", "detectron2", "openmmlab", "paddleclas", "paddledetection")
    early_dilation: bool = False
    paddle_stem: ClassVar[str] = "conv1"  # what PaddleDetection calls a stem of one convolution

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
        deformable: tuple[int, ...] = (),
        pretrained: str | None = None,
        in_channels: int = 3,
        stem: tuple[int, int, int] | None = None,
        modulated: bool = True,
        projected: bool = False,
        early_dilation: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels, self.early_dilation = in_channels, early_dilation
        plan = Plan(width, True, variant=variant, zero_init=zero_init, modulated=modulated, projected=projected)
        self._build(depth, width, out_strides, output_stride, plan, deformable, stem)
        self.finish(freeze_at, frozen_norm, pretrained)

    def _build(
        self,
        depth: int,
        width: int,
        out_strides: Sequence[int],
        output_stride: int,
        block: Plan,
        deformable: Sequence[int],
        stem: tuple[int, int, int] | None = None,
    ) -> None:
        """The stem and the stages; `block` says how all blocks are made."""
        who = type(self).__name__
        _check(who, depth, block.variant, width, output_stride)
        if not set(deformable) <= {8, 16, 32} or (deformable and not _PLANS[depth][1]):
            raise AttributeValueError(
                f"{who}: deformable is {list(deformable)} of depth {depth}; it must be strides out of [8, 16, 32], and "
                "the blocks of depths 18 and 34 cannot be deformable"
            )
        self.strides = check_strides(who, out_strides, [s for s in (4, 8, 16, 32) if s <= output_stride])
        counts, bottleneck = _PLANS[depth]
        self._counts = counts
        self._variant = block.variant
        self._called = _called(depth, block, stem)
        self.as_published = output_stride == 32
        if block.variant == "d" and (self.early_dilation or self.as_published):
            # The same shapes with other dilations are another network.
            self.schemes = ("paddleseg",) if not self.as_published else (*self.schemes, "paddleseg")
        self.stem = _stem(width, block.variant, self.in_channels, stem)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = nn.LayerList()
        at, stride, dilation, taps = stem[-1] if stem else width, 4, 1, {}
        each: list[int] = []
        for i, count in enumerate(counts):
            step, previous = (1 if i == 0 else 2), dilation
            if stride * step > output_stride:
                step, dilation = 1, 2 * dilation
            stride *= step
            if stride > self.strides[-1]:
                break
            plan = replace(block, width=width << i, bottleneck=bottleneck, stride=step, dilation=dilation)
            plan = replace(plan, deformable=4 << i in deformable)
            self.stages.append(residual_stage(at, count, plan, dilation if self.early_dilation else previous))
            at = plan.out_channels
            taps[stride] = (i, at)
            each.append(stride)
        self._each = tuple(each)  # strides of all stages
        self._taps = tuple(taps[s][0] for s in self.strides)
        self.channels = tuple(taps[s][1] for s in self.strides)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem, then stage after stage."""
        return [[self.stem], *([stage] for stage in self.stages)]

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names, which timm shares, or those of Detectron2, OpenMMLab or Paddle's projects."""
        names: dict[str, Source] = {}
        for i, (conv, norm) in enumerate(_stem_names(scheme, len(self.stem), self.paddle_stem)):
            names |= conv_norm(f"stem.{i}", conv, norm, paddle=scheme in PADDLE)
        names = spread_over_frames(names, "stem.0", self.in_channels)
        before = 0
        for i, stage in enumerate(self.stages):
            assert isinstance(stage, nn.Sequential)
            block_name = partial(_block_name, scheme, i, before, len(stage))
            names |= stage_names(stage, f"stages.{i}", block_name, scheme)
            before += len(stage)
        left = range(len(self.stages), len(_STAGES))
        if scheme == "paddleclas":
            coarser = [f"blocks.{i}" for i in range(before, sum(self._counts))]
        elif scheme == "paddleseg":
            coarser = [f"bb_{i}_{j}" for i in left for j in range(self._counts[i])]
        else:
            coarser = [f"layer{i + 1}" if scheme in ("torchvision", "openmmlab") else f"res{i + 2}" for i in left]
        return Names(names, (r"^(fc|linear)\.", *(rf"^{re.escape(name)}\." for name in coarser)))

    def origins_in(self, scheme: str) -> Origins:
        """Variants a and b share torchvision's names, and timm's networks with blurred pooling have them too."""
        return _origins(self._called, self._variant) if scheme == "torchvision" else Origins()

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "linear" if scheme == "detectron2" else "fc", paddle=scheme in PADDLE))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/s, W/s, C_s]."""
        x = self.stem(x)
        x = self.pool(x)
        maps = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i in self._taps:
                maps.append(x)
        return maps

    def placed(self) -> Sequence[tuple[Place, Block]]:
        """Each block with where it stands; stages that dilate in place of halving count as one."""
        found: list[tuple[Place, Block]] = []
        for stage, stride in zip(self.stages, self._each, strict=True):
            first = sum(place.stride == stride for place, _ in found)
            found += [(Place(stride, first + j, block.out_channels), block) for j, block in enumerate(_blocks(stage))]
        return found

    def before_blocks(self, x: Tensor) -> Tensor:
        """The result of the stem and its pooling."""
        return self.pool(self.stem(x))


def _blocks(stage: nn.Layer) -> list[ResidualBlock]:
    assert isinstance(stage, nn.Sequential)
    return [block for block in stage if isinstance(block, ResidualBlock)]


def _stem(width: int, variant: Variant, in_channels: int, three: tuple[int, int, int] | None) -> nn.Sequential:
    """[N, H, W, in_channels] to [N, H/2, W/2, width], or to the last of `three`."""
    if three is None and variant in ("a", "b"):
        return nn.Sequential(nn.ConvBNAct(in_channels, width, 7, 2))
    first, second, last = three or (width // 2, width // 2, width)
    return nn.Sequential(
        nn.ConvBNAct(in_channels, first, 3, 2), nn.ConvBNAct(first, second, 3), nn.ConvBNAct(second, last, 3)
    )


def _check(who: str, depth: int, variant: str, width: int, output_stride: int) -> None:
    allowed: list[tuple[str, object, list[object]]] = [
        ("depth", depth, [*_PLANS]),
        ("variant", variant, ["a", "b", "c", "d"]),
        ("output_stride", output_stride, [8, 16, 32]),
    ]
    for name, value, values in allowed:
        if value not in values:
            raise AttributeValueError(f"{who}: {name} is {value!r}; it must be one of {values}")
    if width < 2 or width % 2:
        raise AttributeValueError(f"{who}: width is {width}; it must be even, 2 or more")


def _called(depth: int, plan: Plan, stem: tuple[int, int, int] | None) -> str:
    """What torchvision and timm call the network, but for blurs: resnet50, resnet50d, seresnext101d_32x8d."""
    suffix = {(24, 32, 64): "t", (64, 64, 128): "s"}.get(stem, "") if stem else plan.variant.strip("ab")
    if plan.groups == 1 and plan.group_width > 64 and not plan.squeeze:
        return f"wide_resnet{depth}_{plan.group_width // 64}"
    wide = f"_{plan.groups}x{plan.group_width}d" if plan.groups > 1 else ""
    return f"{'se' if plan.squeeze else ''}{'resnext' if wide else 'resnet'}{depth}{suffix}{wide}"


def _origins(called: str, variant: Variant) -> Origins:
    """For torchvision's names; `gluon_`, `tv_` and their kin are older names of timm's for the same networks."""
    older = tuple(f"{who}_{called}" for who in ("tv", "ssl", "swsl", "ig"))
    blurred = tuple(re.sub(r"(resnet|resnext)", rf"\1{how}", called) for how in ("aa", "blur"))
    if variant == "a":
        return Origins(("caffe",), (called, *blurred))
    gluon = f"{called}_v1b" if variant == "b" else f"{called[:-1]}_v1{called[-1]}"
    same = (called, f"gluon_{gluon}", f"gluon_{called}", *older)
    return Origins(("torchvision", *same) if variant == "b" and not called.startswith("se") else same, blurred)


_STAGES = (4, 8, 16, 32)  # their strides


def _stem_names(scheme: str, count: int, paddle: str) -> list[tuple[str, str]]:
    """Convolution and norm of each of the stem's layers."""
    if scheme == "paddleclas":
        return [(f"stem.{i}.conv", f"stem.{i}.bn") for i in range(count)]
    if scheme == "paddleseg":
        return [(f"conv1_{i + 1}._conv", f"conv1_{i + 1}._batch_norm") for i in range(count)]
    if scheme == "paddledetection":
        places = [f"conv1.{paddle}"] if count == 1 else [f"conv1.conv1_{i + 1}" for i in range(count)]
        return [(f"{place}.conv", f"{place}.norm") for place in places]
    if scheme == "detectron2":
        places = ["stem.conv1"] if count == 1 else [f"stem.conv1_{i + 1}" for i in range(count)]
        return [(place, f"{place}.norm") for place in places]
    if count == 1:
        return [("conv1", "bn1")]
    if scheme == "openmmlab":
        return [(f"stem.{3 * i}", f"stem.{3 * i + 1}") for i in range(count)]
    return [("conv1.0", "conv1.1"), ("conv1.3", "conv1.4"), ("conv1.6", "bn1")]  # a sequence with its activations


def _block_name(scheme: str, stage: int, before: int, count: int, i: int) -> str:
    """Block i of a stage of `count`, before which there are `before` blocks."""
    if scheme == "paddleclas":
        return f"blocks.{before + i}"
    if scheme == "paddleseg":
        return f"bb_{stage}_{i}"
    if scheme == "paddledetection":  # a, b, c ...; where letters may not do, a, b1, b2 ...
        place = f"res{stage + 2}"
        numbered = stage == 2 and count > 10 and i > 0
        return f"{place}.{place}b{i}" if numbered else f"{place}.{place}{chr(ord('a') + i)}"
    return f"layer{stage + 1}.{i}" if scheme in ("torchvision", "openmmlab") else f"res{stage + 2}.{i}"
