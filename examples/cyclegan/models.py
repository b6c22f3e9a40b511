"""The networks of CycleGAN. Letters: N images, H x W pixels, C channels of the first layer."""

from __future__ import annotations

import itertools

from framework import Tensor, nn, ops
from framework.nn.init import Normal
from suites.engine.registry import register, register_role


class Block(nn.Layer):
    """Convolution, instance norm and ReLU."""

    def __init__(self, channels_in: int, channels: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, initializer=Normal(0.02))
        self.norm = nn.GroupNorm(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return ops.relu(self.norm(self.conv(x)))


class Residual(nn.Layer):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = Block(channels, channels)
        self.second = nn.Conv2d(channels, channels, 3, initializer=Normal(0.02))
        self.norm = nn.GroupNorm(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        return x + self.norm(self.second(self.first(x)))


class Generator(nn.Layer):
    """Redraws a picture in the other style: down by 4, residual blocks, up by 4, tanh.

    The paper pads by reflection and enlarges by transposed convolutions. Here zeros are padded, and pictures are
    enlarged by their nearest pixel before a convolution, which leaves no checkerboard (Odena et al. 2016).

    Args:
        channels: C; the paper's is 64.
        blocks: residual blocks; 6 for 128 pixels and 9 for 256 in the paper.
    """

    def __init__(self, channels: int = 64, blocks: int = 6) -> None:
        super().__init__()
        c = channels
        self.stem = Block(3, c, 7)
        self.down = nn.Sequential(Block(c, 2 * c, 3, 2), Block(2 * c, 4 * c, 3, 2))
        self.blocks = nn.Sequential(*(Residual(4 * c) for _ in range(blocks)))
        self.up = nn.Sequential(nn.Upsample(2), Block(4 * c, 2 * c), nn.Upsample(2), Block(2 * c, c))
        self.out = nn.Conv2d(c, 3, 7, initializer=Normal(0.02))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, 3] in [-1, 1]; H and W are multiples of 4."""
        return ops.tanh(self.out(self.up(self.blocks(self.down(self.stem(x))))))


class Discriminator(nn.Layer):
    """Says of each patch of a picture whether it is real: 1 for yes (PatchGAN, Isola et al. 2017).

    Args:
        channels: C; the paper's is 64.
        halvings: convolutions of stride 2; the paper's 3 see 70 x 70 pixels.
    """

    def __init__(self, channels: int = 64, halvings: int = 3) -> None:
        super().__init__()
        widths = [channels * min(2**i, 8) for i in range(halvings + 1)]
        self.stem = nn.Conv2d(3, channels, 4, 2, padding=1, initializer=Normal(0.02))
        pairs = itertools.pairwise(widths)
        self.convs = nn.LayerList(
            nn.Conv2d(a, b, 4, 2 if i < halvings - 1 else 1, padding=1, initializer=Normal(0.02))
            for i, (a, b) in enumerate(pairs)
        )
        self.norms = nn.LayerList(nn.GroupNorm(width, width) for width in widths[1:])
        self.out = nn.Conv2d(widths[-1], 1, 3, initializer=Normal(0.02))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 3]; y: [N, h, w, 1]."""
        x = ops.leaky_relu(self.stem(x), slope=0.2)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = ops.leaky_relu(norm(conv(x)), slope=0.2)
        return self.out(x)


class Both(nn.Layer):
    """Two networks of a kind, one for each style."""

    def __init__(self, a: nn.Layer, b: nn.Layer) -> None:
        super().__init__()
        self.a, self.b = a, b


register_role("generator", Generator, suite="cyclegan", doc="Redraws a picture in the other style.")
register_role("discriminator", Discriminator, suite="cyclegan", doc="Tells real pictures of a style from made ones.")
register("generator", suite="cyclegan")(Generator)
register("discriminator", suite="cyclegan")(Discriminator)
