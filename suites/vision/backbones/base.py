"""What every image backbone offers: feature maps at several strides, how many channels each has, what is frozen, and
what other frameworks call its weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from framework import nn, tensor
from framework.errors import AttributeValueError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.weights import Names, Origins, drawn, start_from

_MOST_FROZEN = 5  # all up to stride 2^5


@dataclass(frozen=True)
class Place:
    """Where a block stands in a backbone.

    Attributes:
        stride: of its output.
        index: its number among the blocks of that stride, from 0.
        channels: of its output.
    """

    stride: int
    index: int
    channels: int


class Block(nn.Layer):
    """A block whose branch may have a shortcut beside it.  x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    Attributes:
        shortcut: whether there is one.
        in_channels: C.
        out_channels: K.
    """

    shortcut: bool
    in_channels: int
    out_channels: int

    def forward(self, x: Tensor, inner: Tensor | None = None) -> Tensor:
        """The block on x; `inner`, of x's shape, is what the branch sees in place of x."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")


class Backbone(nn.Layer):
    """Image [N, H, W, 3] to feature maps [N, H/s, W/s, C_s], one for each wanted stride, finest first.

    The last line of a constructor is `self.finish(...)`.

    Attributes:
        strides: s of each map.
        channels: C_s of each map.
        in_channels: of the image.
        as_published: whether it computes what its authors' network does: false where later stages dilate.
        schemes: whose names `names_in` knows, such as "torchvision".
        cell_logits: whether its authors classify each cell of what `top()` gives, [N, h, w, D], and take the mean of
            the positive logits, as SqueezeNet's.
    """

    strides: tuple[int, ...]
    channels: tuple[int, ...]
    in_channels: int = 3
    as_published: bool = True
    schemes: tuple[str, ...] = ()
    cell_logits: ClassVar[bool] = False

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3], H and W multiples of the largest stride; one map for each of `strides`."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def placed(self) -> Sequence[tuple[Place, Block]]:
        """Each block with where it stands, in the order in which the image passes them: what `walk` needs."""
        raise NotSupportedError(f"{type(self).__name__}: is not made of blocks that a model could go between")

    def before_blocks(self, x: Tensor) -> Tensor:
        """What the first block takes, of an image [N, H, W, 3]; needed with `placed`."""
        raise NotSupportedError(f"{type(self).__name__}: is not made of blocks that a model could go between")

    def after_blocks(self, x: Tensor) -> Tensor:
        """The map that `forward` gives, of what a block gave."""
        return x

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The layers in the order of the image's way: item k - 1 has those that end at stride 2^k, for `freeze_at`."""
        raise NotSupportedError(f"{type(self).__name__}: does not say what its parts are, so freeze_at must be 0")

    def names_in(self, scheme: str) -> Names:
        """What `scheme`, one of `schemes`, calls the tensors."""
        raise NotImplementedError(f"{type(self).__name__} defines no names_in()")

    def place_in(self, scheme: str) -> str:
        """What stands before its names in a file of a whole classifier of `scheme`, such as "vit."."""
        return ""

    def origins_in(self, scheme: str) -> Origins:
        """What others call the networks that compute the same, and those that only look the same, in `scheme`."""
        return Origins()

    def answers(self) -> dict[str, np.ndarray]:
        """The means by channel of each map of `drawn_image()`; see `suites.engine.weights.answers`."""
        if self.in_channels != 3 or not self.as_published:
            return {}
        maps = self(drawn_image())
        return {f"stride_{s}": m.numpy().mean(axis=(0, 1, 2)) for s, m in zip(self.strides, maps, strict=True)}

    def top(self) -> tuple[nn.Layer, int]:
        """What its authors put between the last map and a classifier's linear layer: maps [N, H, W, C] to features
        [N, D]; and D. By default the mean over the map.
        """
        return nn.GlobalAvgPool2d(), self.channels[-1]

    def before_top(self, x: Tensor) -> Tensor:
        """What `top()` takes of images [N, H, W, 3]: the last map, or what its authors classify in its place."""
        return self(x)[-1]

    def top_names(self, scheme: str) -> Names:
        """What `scheme` calls the tensors of `top()` and, under `fc`, those of the linear layer behind it."""
        raise NotImplementedError(f"{type(self).__name__} defines no top_names()")

    def finish(self, freeze_at: int = 0, frozen_norm: bool = False, pretrained: str | None = None) -> None:
        """Freezes parts and asks for weights; the last thing that a constructor does.

        Args:
            freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
            frozen_norm: batch norms use their running statistics in training too, and are not trained.
            pretrained: see `suites.engine.weights.start_from`.
        """
        if not 0 <= freeze_at <= _MOST_FROZEN:
            raise AttributeValueError(
                f"{type(self).__name__}: freeze_at is {freeze_at}; it must be one of {[*range(_MOST_FROZEN + 1)]}"
            )
        still = [layer for part in self.parts()[:freeze_at] for layer in part] if freeze_at else []
        for layer in still:
            for parameter in layer.parameters():
                parameter.requires_grad = False
        for layer in [self] if frozen_norm else still:
            freeze_norms(layer)
        start_from(self, pretrained)


def drawn_image(size: int = 64) -> Tensor:
    """float32 [1, size, size, 3] from -2 to 2, the same numbers everywhere: what networks are asked about."""
    steps = drawn(size * size * 3, below=256).astype(np.float32) / 64 - 2
    return tensor(steps.reshape(1, size, size, 3))


def freeze_norms(layer: nn.Layer) -> None:
    """Let the batch norms of a layer use their running statistics in training too, and not be trained."""
    for _, part in layer.named_layers():
        if isinstance(part, nn.BatchNorm):
            part.frozen = True
            part.scale.requires_grad = part.bias.requires_grad = False


class Stack(Backbone):
    """A stem of stride 2 and blocks one after the other; the last block of each wanted stride gives a map.

    `MobileNetV1` and its kin fill it with `keep`.
    """

    stem: nn.Layer

    def keep(self, blocks: Sequence[nn.Layer], last: Mapping[int, tuple[int, int]], early: bool = False) -> None:
        """Takes the blocks; `last` gives number and channels of the last one of each stride.

        With `early`, all maps but the coarsest are those of the first block of their stride.
        """
        self.blocks = nn.LayerList(list(blocks))
        self._ends = tuple(last[s][0] + 1 for s in sorted(last))
        first = dict(zip(sorted(last), (0, *self._ends), strict=False))
        self._taps = tuple(first[s] if early and s != self.strides[-1] else last[s][0] for s in self.strides)
        self._each = tuple(sorted(last))  # strides of all blocks
        self.channels = tuple(last[s][1] for s in self.strides)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem with the blocks of its stride, then the blocks of each further stride."""
        blocks = list(self.blocks)
        starts = (0, *self._ends)
        found: list[list[nn.Layer]] = [blocks[a:b] for a, b in zip(starts, self._ends, strict=False)]
        return [[self.stem, *found[0]], *found[1:]]

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        x = self.stem(x)
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self._taps:
                maps.append(x)
        return maps

    def placed(self) -> Sequence[tuple[Place, Block]]:
        """Each block with where it stands."""
        found = []
        for stride, first, end in zip(self._each, (0, *self._ends), self._ends, strict=False):
            for i, block in enumerate(list(self.blocks)[first:end]):
                if not isinstance(block, Block):
                    return super().placed()
                found.append((Place(stride, i, block.out_channels), block))
        return found

    def before_blocks(self, x: Tensor) -> Tensor:
        """The stem's result."""
        return self.stem(x)


class ConvTop(nn.Layer):
    """A 1x1 convolution with batch norm and activation, then the mean over the map.  [N, H, W, C] to [N, D]."""

    def __init__(self, in_channels: int, channels: int, act: str, norm_eps: float = 1e-5) -> None:
        super().__init__()
        self.conv = nn.ConvBNAct(in_channels, channels, 1, act=act, norm_eps=norm_eps)
        self.pool = nn.GlobalAvgPool2d()

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, D]."""
        return self.pool(self.conv(x))


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
