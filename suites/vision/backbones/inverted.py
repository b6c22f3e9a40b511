"""Inverted residuals: the blocks of MobileNetV2 and V3 and of EfficientNet (Sandler et al. 2018, arXiv:1801.04381)."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn
from framework.tensors import Tensor
from suites.vision.backbones.base import Block


class InvertedResidual(Block):
    """A few layers, with their input added where shapes agree.  x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    Args:
        layers: 1x1 expansion (or none), depthwise convolution, linear 1x1, and what else lies between.
        in_channels: C.
        out_channels: K.
        stride: of the layers together.
    """

    def __init__(self, layers: Sequence[nn.Layer], in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.shortcut = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor, inner: Tensor | None = None) -> Tensor:
        """x: [N, H, W, C]; `inner` in its place for the layers."""
        y = self.body(x if inner is None else inner)
        return x + y if self.shortcut else y
