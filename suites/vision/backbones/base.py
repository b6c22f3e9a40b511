"""What every image backbone offers: feature maps at several strides, and how many channels each has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework import nn
from framework.errors import AttributeValueError
from framework.tensor import Tensor


class Backbone(nn.Layer):
    """Image [N, H, W, 3] to feature maps [N, H/s, W/s, C_s], one for each wanted stride, finest first.

    Attributes:
        strides: s of each map.
        channels: C_s of each map.
    """

    strides: tuple[int, ...]
    channels: tuple[int, ...]

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3], H and W multiples of the largest stride; one map for each of `strides`."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")


class Stack(Backbone):
    """A stem and blocks one after the other; the last block of each wanted stride gives a map.

    `MobileNetV1` and its kin fill it with `keep`.
    """

    stem: nn.Layer

    def keep(self, blocks: Sequence[nn.Layer], last: Mapping[int, tuple[int, int]]) -> None:
        """Takes the blocks; `last` gives number and channels of the last one of each stride."""
        self.blocks = nn.LayerList(list(blocks))
        self._taps = tuple(last[s][0] for s in self.strides)
        self.channels = tuple(last[s][1] for s in self.strides)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        x = self.stem(x)
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self._taps:
                maps.append(x)
        return maps


def check_scale(who: str, scale: float) -> None:
    """Raises AttributeValueError unless the factor on all channel numbers is positive."""
    if not scale > 0:
        raise AttributeValueError(f"{who}: scale is {scale}; it must be positive")


def check_strides(who: str, wanted: Sequence[int], offered: Sequence[int]) -> tuple[int, ...]:
    """`wanted` as a tuple.

    Raises:
        AttributeValueError: it is empty, does not ascend, or holds a stride that is not offered.
    """
    if not wanted or list(wanted) != sorted(set(wanted)) or not set(wanted) <= set(offered):
        raise AttributeValueError(
            f"{who}: out_strides is {list(wanted)}; it must be ascending strides out of {list(offered)}"
        )
    return tuple(wanted)
