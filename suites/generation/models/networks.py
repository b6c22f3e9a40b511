"""Parts of the networks: blocks of convolution, norm and activation, and critics of patches.

Letters: N images, H x W pixels, C channels of the first layer.
"""

from __future__ import annotations

import itertools
from typing import Literal

from framework import Tensor, nn, ops
from framework.errors import AttributeValueError
from framework.nn.init import Normal

Norm = Literal["batch", "instance", "layer", "none"]


def conv(
    channels_in: int, channels: int, kernel: int, stride: int = 1, padding: int | None = None, bias: bool = True
) -> nn.Conv2d:
    """A convolution whose weights start at N(0, 0.02), as DCGAN's and its successors'."""
    return nn.Conv2d(channels_in, channels, kernel, stride, padding=padding, bias=bias, initializer=Normal(0.02))


def norm_of(kind: Norm, channels: int) -> nn.Layer | None:
    """The norm of a kind; "layer" normalises all of a picture's numbers together, with a scale a channel."""
    if kind == "batch":
        return nn.BatchNorm(channels)
    if kind == "none":
        return None
    return nn.GroupNorm(channels if kind == "instance" else 1, channels)


class Up(nn.Layer):
    """Transposed convolution of 4 x 4 with stride 2: doubles height and width.

    Args:
        channels_in, channels: before and after.
        bias: whether there is one.
    """

    weight: Tensor

    def __init__(self, channels_in: int, channels: int, bias: bool = False) -> None:
        super().__init__()
        self.add_parameter("weight", (channels_in, 4, 4, channels), Normal(0.02))
        self.bias: Tensor | None = None
        if bias:
            self.add_parameter("bias", (channels,), nn.init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, 2H, 2W, K]."""
        return ops.conv2d_transpose(x, self.weight, self.bias, stride=2, padding=1)


class Block(nn.Layer):
    """Convolution, instance norm and ReLU."""

    def __init__(self, channels_in: int, channels: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.conv = conv(channels_in, channels, kernel, stride)
        self.norm = nn.GroupNorm(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return ops.relu(self.norm(self.conv(x)))


class Residual(nn.Layer):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Block(channels, channels)
        self.second = conv(channels, channels, 3)
        self.norm = nn.GroupNorm(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        return x + self.norm(self.second(self.first(x)))


class Translator(nn.Layer):
    """Redraws a picture: down by 4, residual blocks, up by 4, tanh (Johnson et al. 2016; CycleGAN, section 7.2).

    The paper pads by reflection and enlarges by transposed convolutions. Here zeros are padded, and pictures are
    enlarged by their nearest pixel before a convolution, which leaves no checkerboard (Odena et al. 2016).

    Args:
        channels: C; the paper's is 64.
        blocks: residual blocks; 6 for 128 pixels and 9 for 256 in the paper.
        planes: further channels of the input, such as a plane a class.
    """

    def __init__(self, channels: int, blocks: int, planes: int = 0) -> None:
        super().__init__()
        c = channels
        self.stem = Block(3 + planes, c, 7)
        self.down = nn.Sequential(Block(c, 2 * c, 3, 2), Block(2 * c, 4 * c, 3, 2))
        self.blocks = nn.Sequential(*(Residual(4 * c) for _ in range(blocks)))
        self.up = nn.Sequential(nn.Upsample(2), Block(4 * c, 2 * c), nn.Upsample(2), Block(2 * c, c))
        self.out = conv(c, 3, 7)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 3 + planes], y: [N, H, W, 3] in [-1, 1]; H and W are multiples of 4."""
        return ops.tanh(self.out(self.up(self.blocks(self.down(self.stem(x))))))


class PatchCritic(nn.Layer):
    """Says of each patch of a picture whether it is real: 1 for yes (PatchGAN, Isola et al. 2017, section 6.1.2).

    Args:
        channels: C; the paper's is 64.
        halvings: convolutions of stride 2; the paper's 3 see 70 x 70 pixels.
        channels_in: of the picture; 6 where it is shown with the one that it was drawn from.
        norm: of all but the first and the last convolution.
    """

    def __init__(self, channels: int = 64, halvings: int = 3, channels_in: int = 3, norm: Norm = "instance") -> None:
        super().__init__()
        if halvings < 1:
            raise AttributeValueError(f"critic: halvings is {halvings}; it must be 1 or more")
        widths = [channels * min(2**i, 8) for i in range(halvings + 1)]
        self.stem = conv(channels_in, channels, 4, 2, padding=1)
        pairs = itertools.pairwise(widths)
        self.convs = nn.LayerList(
            conv(a, b, 4, 2 if i < halvings - 1 else 1, padding=1) for i, (a, b) in enumerate(pairs)
        )
        norms = [norm_of(norm, width) for width in widths[1:]]
        self.norms = nn.LayerList(each for each in norms if each is not None)
        self.out = conv(widths[-1], 1, 4, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, h, w, 1]."""
        x = ops.leaky_relu(self.stem(x), slope=0.2)
        for at, layer in enumerate(self.convs):
            x = layer(x)
            x = ops.leaky_relu(self.norms[at](x) if len(self.norms) else x, slope=0.2)
        return self.out(x)


class Both(nn.Layer):
    """Two networks of a kind, one for each kind of picture."""

    def __init__(self, a: nn.Layer, b: nn.Layer) -> None:
        super().__init__()
        self.a, self.b = a, b
