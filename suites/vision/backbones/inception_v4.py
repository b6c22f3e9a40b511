"""Inception v4 (Szegedy et al. 2017, arXiv:1602.07261), with timm's names.

Letters: N batch, H W height and width, C channels in, K channels out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from framework import nn
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.inception import Branch, ConvUnit, Inception, Mixed
from suites.vision.backbones.naming import linear
from suites.vision.backbones.staged import Stage

_ROW, _COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))  # kernel, stride, padding
_SHORT_ROW, _SHORT_COLUMN = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))


@register("backbone")
class InceptionV4(Inception):
    """A stem that forks, then four, seven and three blocks of branches; made for 299 x 299 pixels.

    Its first convolutions and all poolings that halve have no padding, so a map has a few rows less than H / s:
    147, 73, 35, 17 and 8 of 299.

    Args:
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights, such as inception_v4_imagenet; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("timm",)
    unit_names: ClassVar[tuple[tuple[str, ...], ...]] = (("features.0", "features.1", "features.2"),)

    def __init__(
        self,
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("InceptionV4", out_strides, (2, 4, 8, 16, 32))
        self.keep(self.plan())
        self.finish(freeze_at, frozen_norm, pretrained)

    def plan(self) -> Iterator[Stage]:
        """Every stage."""
        yield 2, 64, lambda: nn.Sequential(ConvUnit(3, 32, 3, 2), ConvUnit(32, 32, 3), ConvUnit(32, 64, 3, 1, 1))
        yield 4, 160, lambda: nn.Sequential(_halved(3, 64, ("conv", 96, 3, 2, 0), pool_first=True))
        blocks = range(6, 10), range(11, 18), range(19, 22)
        yield (
            8,
            384,
            lambda: nn.Sequential(
                _stem_fork(), _halved(5, 192, ("conv", 192, 3, 2, 0)), *(_block_a(at) for at in blocks[0])
            ),
        )
        yield 16, 1024, lambda: nn.Sequential(_reduction_a(), *(_block_b(at) for at in blocks[1]))
        yield 32, 1536, lambda: nn.Sequential(_reduction_b(), *(_block_c(at) for at in blocks[2]))

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", "last_linear"))


def _halved(at: int, c: int, unit: tuple[str, int, int, int, int], pool_first: bool = False) -> Mixed:
    """A convolution and a pooling side by side, both of stride 2."""
    branches = [Branch(c, [unit]), Branch(c, [], nn.MaxPool2d(3, 2))]
    return Mixed(f"features.{at}", branches[::-1] if pool_first else branches)


def _mean() -> nn.AvgPool2d:
    return nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)


def _stem_fork() -> Mixed:
    return Mixed(
        "features.4",
        [
            Branch(160, [("branch0.0", 64, 1, 1, 0), ("branch0.1", 96, 3, 1, 0)]),
            Branch(
                160,
                [
                    ("branch1.0", 64, 1, 1, 0),
                    ("branch1.1", 64, *_ROW),
                    ("branch1.2", 64, *_COLUMN),
                    ("branch1.3", 96, 3, 1, 0),
                ],
            ),
        ],
    )


def _block_a(at: int) -> Mixed:
    """Figure 4."""
    return Mixed(
        f"features.{at}",
        [
            Branch(384, [("branch0", 96, 1, 1, 0)]),
            Branch(384, [("branch1.0", 64, 1, 1, 0), ("branch1.1", 96, 3, 1, 1)]),
            Branch(384, [("branch2.0", 64, 1, 1, 0), ("branch2.1", 96, 3, 1, 1), ("branch2.2", 96, 3, 1, 1)]),
            Branch(384, [("branch3.1", 96, 1, 1, 0)], _mean()),
        ],
    )


def _reduction_a() -> Mixed:
    """Figure 7: halves the map of 35 cells."""
    return Mixed(
        "features.10",
        [
            Branch(384, [("branch0", 384, 3, 2, 0)]),
            Branch(384, [("branch1.0", 192, 1, 1, 0), ("branch1.1", 224, 3, 1, 1), ("branch1.2", 256, 3, 2, 0)]),
            Branch(384, [], nn.MaxPool2d(3, 2)),
        ],
    )


def _block_b(at: int) -> Mixed:
    """Figure 5: rows and columns of 7 in place of squares."""
    return Mixed(
        f"features.{at}",
        [
            Branch(1024, [("branch0", 384, 1, 1, 0)]),
            Branch(1024, [("branch1.0", 192, 1, 1, 0), ("branch1.1", 224, *_ROW), ("branch1.2", 256, *_COLUMN)]),
            Branch(
                1024,
                [
                    ("branch2.0", 192, 1, 1, 0),
                    ("branch2.1", 192, *_COLUMN),
                    ("branch2.2", 224, *_ROW),
                    ("branch2.3", 224, *_COLUMN),
                    ("branch2.4", 256, *_ROW),
                ],
            ),
            Branch(1024, [("branch3.1", 128, 1, 1, 0)], _mean()),
        ],
    )


def _reduction_b() -> Mixed:
    """Figure 8: halves the map of 17 cells."""
    return Mixed(
        "features.18",
        [
            Branch(1024, [("branch0.0", 192, 1, 1, 0), ("branch0.1", 192, 3, 2, 0)]),
            Branch(
                1024,
                [
                    ("branch1.0", 256, 1, 1, 0),
                    ("branch1.1", 256, *_ROW),
                    ("branch1.2", 320, *_COLUMN),
                    ("branch1.3", 320, 3, 2, 0),
                ],
            ),
            Branch(1024, [], nn.MaxPool2d(3, 2)),
        ],
    )


def _block_c(at: int) -> Mixed:
    """Figure 6: branches that fork at their ends."""
    return Mixed(
        f"features.{at}",
        [
            Branch(1536, [("branch0", 256, 1, 1, 0)]),
            Branch(
                1536,
                [("branch1_0", 384, 1, 1, 0), ("branch1_1a", 256, *_SHORT_ROW), ("branch1_1b", 256, *_SHORT_COLUMN)],
                forked=2,
            ),
            Branch(
                1536,
                [
                    ("branch2_0", 384, 1, 1, 0),
                    ("branch2_1", 448, *_SHORT_COLUMN),
                    ("branch2_2", 512, *_SHORT_ROW),
                    ("branch2_3a", 256, *_SHORT_ROW),
                    ("branch2_3b", 256, *_SHORT_COLUMN),
                ],
                forked=2,
            ),
            Branch(1536, [("branch3.1", 256, 1, 1, 0)], _mean()),
        ],
    )
