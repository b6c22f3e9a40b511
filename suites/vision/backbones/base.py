"""What every image backbone offers: feature maps at several strides, and how many channels each has."""

from __future__ import annotations

from collections.abc import Sequence

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
