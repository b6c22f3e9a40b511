"""Deformable convolution, version 2, as a block of a backbone (Zhu et al. 2018, arXiv:1811.11168)."""

from __future__ import annotations

from typing import ClassVar

from framework import nn, ops
from framework.nn import init
from framework.tensors import Tensor

_TAPS = 9  # of the 3x3 kernel


class DeformConvBNAct(nn.Layer):
    """A 3x3 convolution whose taps move, with batch norm and activation.

    x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    Another 3x3 convolution gives each tap a shift (Dai et al. 2017, arXiv:1703.06211), and in version 2 a share (Zhu
    et al. 2019, arXiv:1811.11168). It starts with zeros: no shifts, and shares of one half.

    Args:
        in_channels: C.
        out_channels: K.
        stride: step.
        groups: groups of channels.
        dilation: distance between the kernel's taps.
        act: name of the activation.
        modulated: taps have shares (version 2); without them it is version 1.
    """

    new_tensors: ClassVar[tuple[str, ...]] = ("offset.weight", "offset.bias")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int = 1,
        groups: int = 1,
        dilation: int = 1,
        act: str = "relu",
        modulated: bool = True,
    ) -> None:
        super().__init__()
        each = (3 if modulated else 2) * _TAPS
        self.offset = nn.Conv2d(in_channels, each, 3, stride, dilation=dilation, initializer=init.Constant(0.0))
        self._modulated = modulated
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride, dilation=dilation, groups=groups, bias=False)
        self.norm = nn.BatchNorm(out_channels)
        self._activation = nn.activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H/stride, W/stride, K]."""
        shifts, shares = self.offset(x), None
        if self._modulated:
            shifts, shares = ops.split(shifts, axis=3, sizes=(2 * _TAPS, _TAPS))
        y = ops.deform_conv2d(
            x,
            shifts,
            self.conv.weight,
            None if shares is None else ops.sigmoid(shares),
            stride=self.conv.stride,
            padding=self.conv.padding,
            dilation=self.conv.dilation,
            groups=self.conv.groups,
        )
        return self._activation(self.norm(y))
