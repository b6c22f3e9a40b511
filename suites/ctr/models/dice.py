"""Dice, the activation of DIN."""

from __future__ import annotations

from framework import nn, ops
from framework.nn import init
from framework.tensors import Tensor


class Dice(nn.Layer):
    """p x + (1 - p) alpha x with p = sigmoid of x normalised over the batch (Zhou et al. 2018, 5.3).  x: [T, C].

    Args:
        channels: C.
    """

    alpha: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm(channels, eps=1e-9, momentum=0.99)
        self.norm.scale.requires_grad = self.norm.bias.requires_grad = False  # it has none in the paper
        self.add_parameter("alpha", (channels,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        p = ops.sigmoid(self.norm(x))
        return (self.alpha + p * (1.0 - self.alpha)) * x  # one product with x in place of three
