"""GoogLeNet with batch norm (Szegedy et al. 2015, arXiv:1409.4842) and Inception v3 (2016, arXiv:1512.00567).

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from framework import nn, ops
from framework.nn.conv import Size
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.naming import conv_norm, linear
from suites.vision.backbones.staged import Stage, Staged

_EPS = 1e-3
Unit = tuple[str, int, Size, int, Size]  # their name, K, kernel, stride, padding


class ConvUnit(nn.Layer):
    """Convolution, batch norm, ReLU.  x: [N, H, W, C], y: [N, H', W', K]."""

    def __init__(self, in_channels: int, out_channels: int, kernel: Size, stride: int = 1, padding: Size = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm(out_channels, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        return ops.relu(self.norm(self.conv(x)))


class Branch(nn.Layer):
    """A pooling or none, then units.  x: [N, H, W, C], y: [N, H', W', K].

    Args:
        in_channels: C.
        units: one after the other; the last `forked` of them side by side.
        pool: before them.
        forked: how many see the same map at the end.
    """

    def __init__(self, in_channels: int, units: Sequence[Unit], pool: nn.Layer | None = None, forked: int = 1) -> None:
        super().__init__()
        self.pool = pool
        self.units = nn.LayerList()
        self._forked = forked
        self.their_names = [name for name, *_ in units]
        for i, (_, out, kernel, stride, padding) in enumerate(units):
            self.units.append(ConvUnit(in_channels, out, kernel, stride, padding))
            in_channels = out if i < len(units) - forked else in_channels
        self.out_channels = sum(out for _, out, *_ in units[len(units) - forked :]) if units else in_channels

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        x = x if self.pool is None else self.pool(x)
        units = list(self.units)
        if not units:
            return x
        for unit in units[: -self._forked]:
            x = unit(x)
        ends = [unit(x) for unit in units[-self._forked :]]
        return ends[0] if len(ends) == 1 else ops.concat(ends, axis=3)


class Mixed(nn.Layer):
    """Branches side by side.  x: [N, H, W, C], y: [N, H', W', K]."""

    def __init__(self, their_name: str, branches: Sequence[Branch]) -> None:
        super().__init__()
        self.branches = nn.LayerList(branches)
        self.their_name = their_name
        self.out_channels = sum(branch.out_channels for branch in branches)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        return ops.concat([branch(x) for branch in self.branches], axis=3)

    def names(self, ours: str) -> dict[str, Source]:
        """Torchvision's of the tensors of the layer that is `ours` here."""
        found: dict[str, Source] = {}
        for i, branch in enumerate(self.branches):
            assert isinstance(branch, Branch)
            for j, name in enumerate(branch.their_names):
                theirs = f"{self.their_name}.{name}"
                found |= conv_norm(f"{ours}.branches.{i}.units.{j}", f"{theirs}.conv", f"{theirs}.bn")
        return found


class Inception(Staged):
    """What they share: stages of units and mixed layers, under torchvision's names, or timm's of Inception v4."""

    schemes: tuple[str, ...] = ("torchvision",)
    unit_names: ClassVar[tuple[tuple[str, ...], ...]]  # of the units of the first stages

    def whole(self) -> list[nn.Layer]:
        """All stages, with arbitrary numbers: for their names."""
        with nn.init.undrawn():
            return [make() for _, _, make in self.plan()]

    def plan(self) -> Iterator[Stage]:
        """Every stage."""
        raise NotImplementedError(f"{type(self).__name__} defines no plan()")

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Torchvision's names."""
        names: dict[str, Source] = {}
        for i, stage in enumerate(self.whole()):
            assert isinstance(stage, nn.Sequential)
            units = iter(self.unit_names[i] if i < len(self.unit_names) else ())
            for j, layer in enumerate(stage):
                if isinstance(layer, Mixed):
                    names |= layer.names(f"stages.{i}.{j}")
                elif isinstance(layer, ConvUnit):
                    theirs = next(units)
                    names |= conv_norm(f"stages.{i}.{j}", f"{theirs}.conv", f"{theirs}.bn")
        return names

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "fc"))


def _google(name: str, in_channels: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> Mixed:
    """GoogLeNet's block; the branch of 5x5 has 3x3 in torchvision, whose weights are published."""
    pool = nn.MaxPool2d(3, 1, padding=1)
    return Mixed(
        name,
        [
            Branch(in_channels, [("branch1", one, 1, 1, 0)]),
            Branch(in_channels, [("branch2.0", three[0], 1, 1, 0), ("branch2.1", three[1], 3, 1, 1)]),
            Branch(in_channels, [("branch3.0", five[0], 1, 1, 0), ("branch3.1", five[1], 3, 1, 1)]),
            Branch(in_channels, [("branch4.1", pooled, 1, 1, 0)], pool),
        ],
    )


# Of each block: C, then K of 1x1, of 1x1 and 3x3, of 1x1 and "5x5", and of the 1x1 behind the pooling (table 1).
_GOOGLE = {
    8: {"3a": (192, 64, (96, 128), (16, 32), 32), "3b": (256, 128, (128, 192), (32, 96), 64)},
    16: {
        "4a": (480, 192, (96, 208), (16, 48), 64), "4b": (512, 160, (112, 224), (24, 64), 64),
        "4c": (512, 128, (128, 256), (24, 64), 64), "4d": (512, 112, (144, 288), (32, 64), 64),
        "4e": (528, 256, (160, 320), (32, 128), 128),
    },
    32: {"5a": (832, 256, (160, 320), (32, 128), 128), "5b": (832, 384, (192, 384), (48, 128), 128)},
}  # fmt: skip


@register("backbone")
class GoogLeNet(Inception):
    """Stem and nine blocks of four branches, with batch norm, as torchvision has it.

    Args:
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as googlenet_imagenet; see docs/howto/pretrained.md.
    """

    unit_names: ClassVar[tuple[tuple[str, ...], ...]] = (("conv1",), ("conv2", "conv3"))

    def __init__(
        self,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("GoogLeNet", out_strides, (2, 4, 8, 16, 32))
        self.unread = (r"^aux[12]\.",)
        self.keep(self.plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def plan(self) -> Iterator[Stage]:
        """Every stage; each but the first begins with a pooling."""
        yield 2, 64, lambda: nn.Sequential(ConvUnit(3, 64, 7, 2, 3))
        yield 4, 192, lambda: nn.Sequential(_pool(3), ConvUnit(64, 64, 1), ConvUnit(64, 192, 3, 1, 1))
        for stride, blocks in _GOOGLE.items():
            pool = partial(_pool, 2 if stride == 32 else 3)
            mixed = [partial(_google, f"inception{name}", *widths) for name, widths in blocks.items()]
            _, one, three, five, pooled = [*blocks.values()][-1]
            yield stride, one + three[1] + five[1] + pooled, partial(_google_stage, pool, mixed)


def _google_stage(pool: Callable[[], nn.Layer], mixed: Sequence[Callable[[], nn.Layer]]) -> nn.Sequential:
    return nn.Sequential(pool(), *(make() for make in mixed))


def _pool(kernel: int) -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel, 2, ceil_mode=True)


def _mean() -> nn.AvgPool2d:
    return nn.AvgPool2d(3, 1, padding=1)


def _mixed_a(name: str, c: int, pooled: int) -> Mixed:
    """Figure 5 of the paper, with 5x5."""
    return Mixed(
        name,
        [
            Branch(c, [("branch1x1", 64, 1, 1, 0)]),
            Branch(c, [("branch5x5_1", 48, 1, 1, 0), ("branch5x5_2", 64, 5, 1, 2)]),
            Branch(
                c,
                [
                    ("branch3x3dbl_1", 64, 1, 1, 0),
                    ("branch3x3dbl_2", 96, 3, 1, 1),
                    ("branch3x3dbl_3", 96, 3, 1, 1),
                ],
            ),
            Branch(c, [("branch_pool", pooled, 1, 1, 0)], _mean()),
        ],
    )


def _mixed_b(name: str, c: int) -> Mixed:
    """Halves the map of 35 cells."""
    return Mixed(
        name,
        [
            Branch(c, [("branch3x3", 384, 3, 2, 0)]),
            Branch(
                c,
                [
                    ("branch3x3dbl_1", 64, 1, 1, 0),
                    ("branch3x3dbl_2", 96, 3, 1, 1),
                    ("branch3x3dbl_3", 96, 3, 2, 0),
                ],
            ),
            Branch(c, [], nn.MaxPool2d(3, 2)),
        ],
    )


def _mixed_c(name: str, c: int, inner: int) -> Mixed:
    """Figure 6: rows and columns of 7 in place of squares."""
    row, column = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    return Mixed(
        name,
        [
            Branch(c, [("branch1x1", 192, 1, 1, 0)]),
            Branch(c, [("branch7x7_1", inner, 1, 1, 0), ("branch7x7_2", inner, *row), ("branch7x7_3", 192, *column)]),
            Branch(
                c,
                [
                    ("branch7x7dbl_1", inner, 1, 1, 0),
                    ("branch7x7dbl_2", inner, *column),
                    ("branch7x7dbl_3", inner, *row),
                    ("branch7x7dbl_4", inner, *column),
                    ("branch7x7dbl_5", 192, *row),
                ],
            ),
            Branch(c, [("branch_pool", 192, 1, 1, 0)], _mean()),
        ],
    )


def _mixed_d(name: str, c: int) -> Mixed:
    """Halves the map of 17 cells."""
    return Mixed(
        name,
        [
            Branch(c, [("branch3x3_1", 192, 1, 1, 0), ("branch3x3_2", 320, 3, 2, 0)]),
            Branch(
                c,
                [
                    ("branch7x7x3_1", 192, 1, 1, 0),
                    ("branch7x7x3_2", 192, (1, 7), 1, (0, 3)),
                    ("branch7x7x3_3", 192, (7, 1), 1, (3, 0)),
                    ("branch7x7x3_4", 192, 3, 2, 0),
                ],
            ),
            Branch(c, [], nn.MaxPool2d(3, 2)),
        ],
    )


def _mixed_e(name: str, c: int) -> Mixed:
    """Figure 7: branches that fork at their ends."""
    row, column = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
    return Mixed(
        name,
        [
            Branch(c, [("branch1x1", 320, 1, 1, 0)]),
            Branch(
                c,
                [("branch3x3_1", 384, 1, 1, 0), ("branch3x3_2a", 384, *row), ("branch3x3_2b", 384, *column)],
                forked=2,
            ),
            Branch(
                c,
                [
                    ("branch3x3dbl_1", 448, 1, 1, 0),
                    ("branch3x3dbl_2", 384, 3, 1, 1),
                    ("branch3x3dbl_3a", 384, *row),
                    ("branch3x3dbl_3b", 384, *column),
                ],
                forked=2,
            ),
            Branch(c, [("branch_pool", 192, 1, 1, 0)], _mean()),
        ],
    )


@register("backbone")
class InceptionV3(Inception):
    """Stem of five convolutions and eleven blocks of branches; made for 299 x 299 pixels.

    Its first convolutions and all poolings that halve have no padding, so a map has a few rows less than H / s:
    149, 73, 35, 17 and 8 of 299.

    Args:
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as inception_v3_imagenet; see docs/howto/pretrained.md.
    """

    unit_names: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3"),
        ("Conv2d_3b_1x1", "Conv2d_4a_3x3"),
    )

    def __init__(
        self,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("InceptionV3", out_strides, (2, 4, 8, 16, 32))
        self.unread = (r"^AuxLogits\.",)
        self.keep(self.plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def plan(self) -> Iterator[Stage]:
        """Every stage."""
        yield 2, 64, lambda: nn.Sequential(ConvUnit(3, 32, 3, 2), ConvUnit(32, 32, 3), ConvUnit(32, 64, 3, 1, 1))
        yield 4, 192, lambda: nn.Sequential(nn.MaxPool2d(3, 2), ConvUnit(64, 80, 1), ConvUnit(80, 192, 3))
        yield (
            8,
            288,
            lambda: nn.Sequential(
                nn.MaxPool2d(3, 2),
                _mixed_a("Mixed_5b", 192, 32),
                _mixed_a("Mixed_5c", 256, 64),
                _mixed_a("Mixed_5d", 288, 64),
            ),
        )
        yield (
            16,
            768,
            lambda: nn.Sequential(
                _mixed_b("Mixed_6a", 288),
                *(
                    _mixed_c(f"Mixed_6{letter}", 768, inner)
                    for letter, inner in zip("bcde", (128, 160, 160, 192), strict=True)
                ),
            ),
        )
        yield (
            32,
            2048,
            lambda: nn.Sequential(_mixed_d("Mixed_7a", 768), _mixed_e("Mixed_7b", 1280), _mixed_e("Mixed_7c", 2048)),
        )
