"""HRNet W18 to W64, which keeps a fine map beside the coarse ones all the way (Wang et al. 2020, arXiv:1908.07919).

Letters: N batch, H W height and width, B branches, w channels of the finest branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Origins, Source
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import conv_norm
from suites.vision.backbones.residual import EXPANSION, Plan, residual_stage, stage_names

_STEM = 64
# Of the first stage and of each branch of a module the blocks, and the modules of the stages with 2, 3 and 4 branches.
_SIZES = {"full": (4, (1, 4, 3)), "small": (2, (1, 3, 2))}


@register("backbone")
class HRNet(Backbone):
    """Two convolutions of stride 2, a stage of bottlenecks, then stages of 2, 3 and 4 branches of strides 4, 8, 16, 32.

    Args:
        width: w; the branches have w, 2w, 4w and 8w channels.
        out_strides: strides of the maps given out, of 4, 8, 16, 32. The whole network is there in any case.
        freeze_at: 1 the first convolution is not trained; 2 the second and the bottlenecks too; 3 to 5 the stages of 2,
            3 and 4 branches too, which all work at stride 4 as well.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        size: "small" has half the blocks, and modules 1, 3, 2 in place of 1, 4, 3: its authors' W18-small-v2.
        upsampling: how coarse maps are enlarged where they are added to finer ones: the classifiers' way, or that of
            their authors' segmentation networks.
    """

    schemes: tuple[str, ...] = ("timm", "paddleseg")  # the first are those of its authors

    def __init__(
        self,
        width: Literal[18, 30, 32, 40, 44, 48, 64] = 32,
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
        upsampling: Literal["nearest", "bilinear"] = "nearest",
        size: Literal["full", "small"] = "full",
    ) -> None:
        super().__init__()
        blocks, modules = _SIZES[size]
        self.strides = check_strides("HRNet", out_strides, (4, 8, 16, 32))
        self.channels = tuple(width * s // 4 for s in self.strides)
        self.stem = nn.Sequential(nn.ConvBNAct(3, _STEM, 3, 2), nn.ConvBNAct(_STEM, _STEM, 3, 2))
        self.first = residual_stage(_STEM, blocks, Plan(_STEM, True))
        at: list[int] = [_STEM * EXPANSION]
        self.transitions, self.stages = nn.LayerList(), nn.LayerList()
        for count in modules:
            wanted = [width << i for i in range(len(at) + 1)]
            self.transitions.append(_Transition(at, wanted))
            self.stages.append(nn.Sequential(*[_Module(wanted, upsampling, blocks) for _ in range(count)]))
            at = wanted
        self._width, self._small = width, size == "small"
        self.as_published = upsampling == "nearest"
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The first convolution; the second and the bottlenecks; stage after stage with the transition to it."""
        pairs = zip(self.transitions, self.stages, strict=True)
        return [[self.stem[0]], [self.stem[1], self.first], *([t, s] for t, s in pairs)]

    def origins_in(self, scheme: str) -> Origins:
        """The classifiers of its authors, as timm calls them."""
        called = f"hrnet_w{self._width}"
        names = (f"{called}_small_v2",) if self._small else (called, f"{called}_ssld")
        return Origins(names) if scheme == "timm" else Origins()

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        maps = [self.first(self.stem(x))]
        for transition, stage in zip(self.transitions, self.stages, strict=True):
            maps = transition(maps)
            for module in stage:  # type: ignore[attr-defined]
                maps = module(maps)
        return [m for m, s in zip(maps, (4, 8, 16, 32), strict=True) if s in self.strides]

    def names_in(self, scheme: str) -> Names:
        """The authors' names, which timm has as well, or PaddleSeg's."""
        if scheme == "paddleseg":
            return Names(self._paddleseg_names())
        names = conv_norm("stem.0", "conv1", "bn1") | conv_norm("stem.1", "conv2", "bn2")
        names |= stage_names(self.first, "first", "layer1.{}".format)
        for i, (transition, stage) in enumerate(zip(self.transitions, self.stages, strict=True)):
            names |= transition.names(f"transitions.{i}", f"transition{i + 1}")  # type: ignore[attr-defined]
            for j, module in enumerate(stage):  # type: ignore[arg-type, var-annotated]
                names |= module.names(f"stages.{i}.{j}", f"stage{i + 2}.{j}")
        return Names(names, (r"^incre_modules\.", r"^downsamp_modules\.", r"^final_layer\.", r"^classifier\."))

    def _paddleseg_names(self) -> dict[str, Source]:
        """Stages are numbered from 2 on, modules, branches and blocks from 1 on."""
        names: dict[str, Source] = {}
        for i in range(2):
            names |= _unit(f"stem.{i}", f"conv_layer1_{i + 1}")
        blocks = [f"la1.bb_layer2_{i + 1}" for i in range(len(self.first))]
        names |= stage_names(self.first, "first", blocks.__getitem__, "paddleseg_hrnet")
        for i, (transition, stage) in enumerate(zip(self.transitions, self.stages, strict=True)):
            place = f"tr{i + 1}.transition_tr{i + 1}_layer_"
            names |= _unit(f"transitions.{i}.new", f"{place}{i + 2}")
            if transition.same is not None:  # type: ignore[attr-defined]
                names |= _unit(f"transitions.{i}.same", f"{place}1")
            for j, module in enumerate(stage):  # type: ignore[arg-type, var-annotated]
                called = f"st{i + 2}_{j + 1}"
                names |= module.paddleseg_names(f"stages.{i}.{j}", f"st{i + 2}.stage_{called}", called)
        return names


def _unit(ours: str, theirs: str) -> dict[str, Source]:
    return conv_norm(ours, f"{theirs}._conv", f"{theirs}._batch_norm", paddle=True)


class _Transition(nn.Layer):
    """B maps to B + 1: the first may change its channels, the new one is the last at half the size."""

    def __init__(self, have: Sequence[int], wanted: Sequence[int]) -> None:
        super().__init__()
        self.same = nn.ConvBNAct(have[0], wanted[0], 3) if have[0] != wanted[0] else None
        self.new = nn.ConvBNAct(have[-1], wanted[-1], 3, 2)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """B maps, finest first; B + 1 maps."""
        first = maps[0] if self.same is None else self.same(maps[0])
        return [first, *maps[1:], self.new(maps[-1])]

    def names(self, ours: str, theirs: str) -> dict[str, Source]:
        """Theirs has an empty place for each map that stays."""
        at = int(theirs[-1])
        new = conv_norm(f"{ours}.new", f"{theirs}.{at}.0.0", f"{theirs}.{at}.0.1")
        return new if self.same is None else new | conv_norm(f"{ours}.same", f"{theirs}.0.0", f"{theirs}.0.1")


class _Module(nn.Layer):
    """B branches of basic blocks, then each map is the sum of all, brought to its size and channels."""

    def __init__(self, channels: Sequence[int], upsampling: Literal["nearest", "bilinear"], blocks: int) -> None:
        super().__init__()
        self._enlarged = ops.resize_nearest if upsampling == "nearest" else ops.resize_bilinear
        self.branches = nn.LayerList(residual_stage(c, blocks, Plan(c, False)) for c in channels)
        self.paths = nn.LayerList()  # to each map from each other one, row by row
        for i, out in enumerate(channels):
            for j, have in enumerate(channels):
                if i < j:
                    self.paths.append(nn.Sequential(nn.ConvBNAct(have, out, 1, act="none")))
                elif i > j:
                    halvings = [nn.ConvBNAct(have, have, 3, 2) for _ in range(i - j - 1)]
                    self.paths.append(nn.Sequential(*halvings, nn.ConvBNAct(have, out, 3, 2, act="none")))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """B maps; as many of the same shapes."""
        maps = [branch(x) for branch, x in zip(self.branches, maps, strict=True)]
        paths = iter(self.paths)
        summed = []
        for i, own in enumerate(maps):
            parts = [x if i == j else next(paths)(x) for j, x in enumerate(maps)]
            first, *rest = [self._enlarged(part, own) if j > i else part for j, part in enumerate(parts)]
            summed.append(ops.relu(sum(rest, start=first)))
        return summed

    def names(self, ours: str, theirs: str) -> dict[str, Source]:
        """Branches, then `fuse_layers.I.J` from map J to map I."""
        found: dict[str, Source] = {}
        for b, branch in enumerate(self.branches):
            assert isinstance(branch, nn.Sequential)
            found |= stage_names(branch, f"{ours}.branches.{b}", f"{theirs}.branches.{b}.{{}}".format)
        count, at = len(self.branches), 0
        for i in range(count):
            for j in range(count):
                place = f"{theirs}.fuse_layers.{i}.{j}"
                if i < j:
                    found |= conv_norm(f"{ours}.paths.{at}.0", f"{place}.0", f"{place}.1")
                for k in range(i - j):
                    found |= conv_norm(f"{ours}.paths.{at}.{k}", f"{place}.{k}.0", f"{place}.{k}.1")
                at += i != j
        return found

    def paddleseg_names(self, ours: str, theirs: str, called: str) -> dict[str, Source]:
        """Names of the module that is `called` st2_1, st3_1, st3_2 ..."""
        found: dict[str, Source] = {}
        for b, branch in enumerate(self.branches):
            assert isinstance(branch, nn.Sequential)
            blocks = [f"{theirs}.branches_func.bb_{called}_branch_layer_{b + 1}_{j + 1}" for j in range(len(branch))]
            found |= stage_names(branch, f"{ours}.branches.{b}", blocks.__getitem__, "paddleseg_hrnet")
        count = len(self.branches)
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        for at, (i, j) in enumerate(pairs):
            place = f"{theirs}.fuse_func.residual_{called}_layer_{i + 1}_{j + 1}"
            steps = [place] if i < j else [f"{place}_{k + 1}" for k in range(i - j)]
            for k, step in enumerate(steps):
                found |= _unit(f"{ours}.paths.{at}.{k}", step)
        return found
