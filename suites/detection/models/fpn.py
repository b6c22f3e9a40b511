"""Feature pyramid network: maps of one width at all levels (Lin et al. 2017, arXiv:1612.03144).

Letters: N batch, H_s W_s grid of stride s, C_s channels of the backbone's map, L levels given out, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models.base import Neck
from suites.engine.registry import register

Extra = Literal["none", "pool", "conv_c5", "conv_p5"]


@register("neck")
class FPN(Neck):
    """A 1x1 convolution on each map, sums from the coarsest down (nearest neighbour), a 3x3 convolution on each sum.

    Levels beyond the backbone's, each of twice the stride of the one before:
    "pool" takes every second cell of the level before (P6 of Faster R-CNN);
    "conv_c5" and "conv_p5" are RetinaNet's P6 and P7 (Lin et al. 2017, arXiv:1708.02002): a 3x3 convolution of stride 2
    on the backbone's coarsest map or on the pyramid's, then ReLU and such a convolution for each further level.

    Convolutions start from a uniform draw of variance 1 / fan in, their biases from 0. Parameters are called
    `inner_blocks.I` (1x1), `layer_blocks.I` (3x3), finest first, and `extra_blocks.I`.

    Args:
        in_channels: C_s of each backbone map, finest first.
        in_strides: of each backbone map, each twice the one before.
        width: D, channels of every map given out.
        extra: how levels beyond the backbone's are made.
        levels: L; None for as many as the backbone has, and one more for "pool", two more for "conv_c5" and "conv_p5".
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        in_strides: Sequence[int],
        width: int = 256,
        extra: Extra = "pool",
        levels: int | None = None,
    ) -> None:
        super().__init__()
        given = len(in_channels)
        total = given + {"none": 0, "pool": 1}.get(extra, 2) if levels is None else levels
        _check(in_strides, width, extra, total)
        self.strides = tuple(in_strides[0] << i for i in range(total))
        self.channels = (width,) * total
        self.extra = extra
        self.inner_blocks = nn.LayerList(_conv(c, width, 1) for c in in_channels)
        self.layer_blocks = nn.LayerList(_conv(width, width, 3) for _ in in_channels)
        self.extra_blocks = nn.LayerList()
        if extra in ("conv_c5", "conv_p5"):
            first = in_channels[-1] if extra == "conv_c5" else width
            for i in range(total - given):
                self.extra_blocks.append(_conv(width if i else first, width, 3, 2))

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """maps: [N, H_s, W_s, C_s], finest first; L maps [N, H_s, W_s, D]. Sides need not be multiples of a stride."""
        sums: list[Tensor] = []
        for x, inner in zip(reversed(maps), reversed(list(self.inner_blocks)), strict=True):
            x = inner(x)
            sums.append(x + ops.resize_nearest(sums[-1], like=x) if sums else x)
        levels = [layer(x) for x, layer in zip(reversed(sums), self.layer_blocks, strict=True)]
        return levels + self._beyond(maps[-1], levels[-1])

    def _beyond(self, c5: Tensor, p5: Tensor) -> list[Tensor]:
        """The levels coarser than the backbone's."""
        found: list[Tensor] = []
        if self.extra == "pool":
            for _ in range(len(self.strides) - len(self.layer_blocks)):
                found.append(ops.max_pool2d(found[-1] if found else p5, kernel=1, stride=2))
        for conv in self.extra_blocks:
            found.append(conv(ops.relu(found[-1]) if found else c5 if self.extra == "conv_c5" else p5))
        return found


def _conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    start = nn.init.Kaiming("uniform", slope=1.0)
    return nn.Conv2d(in_channels, out_channels, kernel, stride, initializer=start)


def _check(in_strides: Sequence[int], width: int, extra: str, total: int) -> None:
    given = len(in_strides)
    if width < 1:
        raise AttributeValueError(f"FPN: width is {width}; it must be 1 or more")
    if any(b != 2 * a for a, b in pairwise(in_strides)):
        raise AttributeValueError(
            f"FPN: the backbone's strides are {list(in_strides)}; each must be twice the one before "
            "(choose out_strides such as [4, 8, 16, 32])"
        )
    if extra not in ("none", "pool", "conv_c5", "conv_p5"):
        raise AttributeValueError(f"FPN: extra is {extra!r}; it is none, pool, conv_c5 or conv_p5")
    if total < given or (extra == "none" and total > given):
        most = given if extra == "none" else "any more"
        raise AttributeValueError(
            f"FPN: levels is {total}; with {given} backbone maps and extra: {extra} it is {given} to {most}"
        )
