"""Squeeze and excitation: a factor for each channel, computed from the means (Hu et al. 2018, arXiv:1709.01507)."""

from __future__ import annotations

from typing import Literal

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.weights import Source
from suites.vision.backbones.naming import conv


class SqueezeExcite(nn.Layer):
    """x * gate(W2 act(W1 mean(x))).  x, y: [N, H, W, C].

    Args:
        channels: C.
        hidden: channels between the two 1x1 convolutions.
        gate: what makes factors of numbers.
        act: name of the activation between the convolutions, see `nn.activation`.
    """

    def __init__(
        self, channels: int, hidden: int, gate: Literal["sigmoid", "hardsigmoid"] = "sigmoid", act: str = "relu"
    ) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, hidden, 1)
        self.up = nn.Conv2d(hidden, channels, 1)
        self._gate, self._act = nn.activation(gate), nn.activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        mean = ops.mean(x, axes=(1, 2), keepdims=True)
        return x * self._gate(self.up(self._act(self.down(mean))))


def squeeze_names(ours: str, theirs: str, down: str = "fc1", up: str = "fc2") -> dict[str, Source]:
    """Names of a `SqueezeExcite`, whose convolutions torchvision and timm call fc1 and fc2 in most networks."""
    return {
        **conv(f"{ours}.down", f"{theirs}.{down}", bias=True),
        **conv(f"{ours}.up", f"{theirs}.{up}", bias=True),
    }


def rounded(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor`, but never 10 % less (the rule of MobileNet's authors)."""
    near = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * channels else near
