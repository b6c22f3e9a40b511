"""Anchor boxes of R-CNN, RetinaNet and SSD: what lies around each cell of each level, laid out over maps of any size.

Letters: N batch, H W a level's grid, A anchors a cell, P = H * W * A anchors of a level, L levels.
Boxes are [x1, y1, x2, y2] in pixels of the network's input. Anchors are ordered by row, column, cell box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor

RATIOS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class AnchorLevel:
    """The anchors of one level.

    Attributes:
        cells: A boxes around (0, 0), in pixels.
        stride: pixels from one cell to the next.
        offset: where in its cell an anchor's centre lies, as a share of the stride: 0 the corner, 0.5 the middle.
    """

    cells: tuple[tuple[float, float, float, float], ...]
    stride: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        sides = np.array([[x2 - x1, y2 - y1] for x1, y1, x2, y2 in self.cells])
        if not len(self.cells) or not (sides > 0).all() or not np.isfinite(sides).all() or self.stride <= 0:
            raise AttributeValueError(
                f"AnchorLevel: cells are {self.cells} and stride {self.stride}; there must be a box or more, each with "
                "an area, and a positive stride"
            )

    def grid(self, features: Tensor) -> Tensor:
        """The anchors [P, 4] of a map [N, H, W, any]; they depend on H and W alone."""
        with no_grad():
            cells = [side for box in self.cells for side in box]
            return ops.anchor_grid(features, cells=cells, stride=float(self.stride), offset=float(self.offset))


@dataclass(frozen=True)
class AnchorGrid:
    """The anchors of all levels, finest first.

    Attributes:
        levels: L of them.
    """

    levels: tuple[AnchorLevel, ...]

    def grids(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Anchors [P, 4] of each of L maps [N, H, W, any]."""
        self._expect(len(maps))
        return [level.grid(x) for level, x in zip(self.levels, maps, strict=True)]

    @property
    def per_cell(self) -> tuple[int, ...]:
        """A of each level."""
        return tuple(len(level.cells) for level in self.levels)

    def _expect(self, count: int) -> None:
        if count != len(self.levels):
            raise AttributeValueError(f"AnchorGrid: {count} maps were given for anchors of {len(self.levels)} levels")


def rcnn_anchors(
    strides: Sequence[int],
    sizes: Sequence[float] = (32, 64, 128, 256, 512),
    ratios: Sequence[float] = RATIOS,
    octaves: int = 1,
    rounded: bool = False,
) -> AnchorGrid:
    """One size a level, in `octaves` steps up to the next power of two, in each ratio (Ren et al. 2015).

    A cell's boxes come ratio by ratio, and within a ratio from small to large.

    Args:
        strides: of each level.
        sizes: side of the square box of each level, in pixels.
        ratios: height / width; the area stays.
        octaves: sizes a level: size * 2^(i / octaves).
        rounded: sizes cut and corners rounded to whole pixels, as torchvision has them; its weights expect this.

    Raises:
        AttributeValueError: sizes and strides differ in number, or a number is not positive.
    """
    if len(sizes) != len(strides):
        raise AttributeValueError(
            f"anchors: {len(sizes)} sizes {list(sizes)} for {len(strides)} levels; give one a level"
        )
    if octaves < 1 or not ratios or min(*sizes, *ratios, *strides) <= 0:
        raise AttributeValueError(
            f"anchors: sizes {list(sizes)}, ratios {list(ratios)}, octaves {octaves}; all must be positive"
        )
    levels = []
    for size, stride in zip(sizes, strides, strict=True):
        sides = [size * 2 ** (i / octaves) for i in range(octaves)]
        if rounded:
            sides = [float(int(side)) for side in sides]
        boxes = [_centred(side / math.sqrt(ratio), side * math.sqrt(ratio)) for ratio in ratios for side in sides]
        if rounded:
            boxes = [(round(x1), round(y1), round(x2), round(y2)) for x1, y1, x2, y2 in boxes]
        levels.append(AnchorLevel(tuple(boxes), stride))
    return AnchorGrid(tuple(levels))


def retinanet_anchors(
    strides: Sequence[int],
    scale: float = 4.0,
    octaves: int = 3,
    ratios: Sequence[float] = RATIOS,
    rounded: bool = False,
) -> AnchorGrid:
    """RetinaNet's anchors: at each level 3 octave steps from `scale` times its stride on, in 3 ratios.

    Args:
        strides: of each level.
        scale: smallest square's side, in strides.
        octaves: see `rcnn_anchors`.
        ratios: see `rcnn_anchors`.
        rounded: see `rcnn_anchors`.
    """
    return rcnn_anchors(strides, [scale * stride for stride in strides], ratios, octaves, rounded)


@dataclass(frozen=True)
class SSDPriors:
    """SSD's priors (Liu et al. 2016, section 2.2).

    For each minimum size of a level a square of it, the square of sqrt(min * max) and, for each ratio r, a box of ratio
    r and one of 1 / r.

    Args:
        min_sizes: one or more sides of each level, in pixels.
        ratios: width / height of each level, without 1.
        steps: pixels from cell to cell, of each level.
        max_sizes: of each level; null leaves its square of sqrt(min * max) out, and an empty list all of them.
        offset: where in its cell a prior's centre lies.
        limit: longest side that is left; None for no limit ("clip off"). torchvision's weights have the image's side.
    """

    min_sizes: tuple[tuple[float, ...], ...]
    ratios: tuple[tuple[float, ...], ...]
    steps: tuple[float, ...]
    max_sizes: tuple[float | None, ...] = ()
    offset: float = 0.5
    limit: float | None = None

    def __post_init__(self) -> None:
        counts = {"min_sizes": len(self.min_sizes), "ratios": len(self.ratios), "steps": len(self.steps)}
        counts |= {"max_sizes": len(self.max_sizes)} if self.max_sizes else {}
        if len(set(counts.values())) > 1:
            raise AttributeValueError(f"SSDPriors: the lists are of different numbers of levels: {counts}")

    @classmethod
    def between(cls, sizes: Sequence[float], ratios: Sequence[Sequence[float]], steps: Sequence[float]) -> SSDPriors:
        """For L levels L + 1 sizes, each the maximum of one level and the minimum of the next."""
        smallest = tuple((size,) for size in sizes[:-1])
        return cls(smallest, tuple(tuple(level) for level in ratios), tuple(steps), tuple(sizes[1:]))

    def grid(self) -> AnchorGrid:
        """The anchors.

        Raises:
            AttributeValueError: a number is not positive, or a maximum is below its minimum.
        """
        top = math.inf if self.limit is None else self.limit
        levels = []
        for at, (small, ratios, step) in enumerate(zip(self.min_sizes, self.ratios, self.steps, strict=True)):
            large = self.max_sizes[at] if self.max_sizes else None
            sides = [pair for least in small for pair in _prior_sides(least, large, ratios)]
            cells = tuple(_centred(min(w, top), min(h, top)) for w, h in sides)
            levels.append(AnchorLevel(cells, step, self.offset))
        return AnchorGrid(tuple(levels))


# Pascal VOC's; 38, 19, 10, 5, 3 and 1 cells a side: 8732 priors.
SSD300 = SSDPriors.between(
    (30, 60, 111, 162, 213, 264, 315), ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)), (8, 16, 32, 64, 100, 300)
)
# 64, 32, 16, 8, 4, 2 and 1 cells a side: 24564 priors.
SSD512 = SSDPriors.between(
    (20, 51, 133, 215, 296, 378, 460, 542),
    ((2,), (2, 3), (2, 3), (2, 3), (2, 3), (2,), (2,)),
    (8, 16, 32, 64, 128, 256, 512),
)


def _prior_sides(least: float, large: float | None, ratios: Sequence[float]) -> list[tuple[float, float]]:
    """(width, height) of a level's priors of one minimum size."""
    if least <= 0 or min(ratios, default=1) <= 0 or (large is not None and large < least):
        raise AttributeValueError(
            f"SSD priors: a minimum size is {least}, its maximum {large}, ratios {list(ratios)}; all must be positive "
            "and the maximum at least the minimum"
        )
    sides = [(least, least)]
    if large is not None:
        sides.append((math.sqrt(least * large),) * 2)
    for ratio in ratios:
        wide = least * math.sqrt(ratio), least / math.sqrt(ratio)
        sides += [wide, wide[::-1]]
    return sides


def _centred(width: float, height: float) -> tuple[float, float, float, float]:
    return -width / 2, -height / 2, width / 2, height / 2
