"""VGG of 11 to 19 layers (Simonyan and Zisserman 2015, arXiv:1409.1556), and its form in SSD (Liu et al. 2016).

Letters: N batch, H W image size, C_s channels of the map of stride s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import CONV_AXES, conv, linear
from suites.vision.backbones.naming import norm as norm_names

_BLOCKS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}  # convolutions before each pooling
_WIDTHS = (64, 128, 256, 512, 512)  # of each block, at width 64
_CLASSIFIER, _CELLS = 4096, 7  # features of the classifier's linear layers, cells a side that the first one sees


@register("backbone")
class VGG(Backbone):
    """Five blocks of 3x3 convolutions with ReLU, each but the first after a max pooling of 2.

    The map of stride s is that of the last convolution before the pooling that would make it 2s: conv4_3 has stride 8,
    conv5_3 stride 16; the fifth pooling, stride 32. Poolings round up. With `reduced_fc` the fifth pooling is 3x3 of
    stride 1, and fc6 (3x3, dilation 6) and fc7 (1x1), 1024 channels each, follow: their map is that of stride 16.

    Parameters: `convs.I` (`.weight`, `.bias`), all 3x3 convolutions in order, and `fc6` and `fc7`; `torchvision_name`
    translates.

    Args:
        depth: 11, 13, 16 or 19.
        width: channels of the first block.
        out_strides: strides of the maps given out, of 1, 2, 4, 8, 16 and, without `reduced_fc`, 32; the network ends at
            the last.
        reduced_fc: SSD's form.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        norm: a batch norm behind each 3x3 convolution, as in torchvision's `vgg16_bn` and its kin.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
    """

    schemes: tuple[str, ...] = ("torchvision", "paddledetection")
    new_tensors: ClassVar[tuple[str, ...]] = ("fc6.", "fc7.")  # a classifier's file lacks them; they start anew

    def __init__(
        self,
        depth: Literal[11, 13, 16, 19] = 16,
        width: int = 64,
        out_strides: tuple[int, ...] = (8, 16, 32),
        reduced_fc: bool = False,
        freeze_at: int = 0,
        pretrained: str | None = None,
        norm: bool = False,
        frozen_norm: bool = False,
    ) -> None:
        super().__init__()
        if depth not in _BLOCKS or width < 1:
            raise AttributeValueError(
                f"VGG: depth is {depth}, width {width}; depth must be one of {[*_BLOCKS]}, width 1 or more"
            )
        offered = (1, 2, 4, 8, 16) if reduced_fc else (1, 2, 4, 8, 16, 32)
        self.strides = check_strides("VGG", out_strides, offered)
        self._ends: list[int] = []  # number of convolutions up to the end of each block
        self.convs, self.norms = nn.LayerList(), nn.LayerList()
        channels, by_stride = 3, {}
        for i, count in enumerate(_BLOCKS[depth]):
            if 1 << i > self.strides[-1]:
                break
            out = _WIDTHS[i] * width // 64
            for _ in range(count):
                self.convs.append(nn.Conv2d(channels, out, 3))
                channels = out
                if norm:
                    self.norms.append(nn.BatchNorm(out))
            self._ends.append(len(self.convs))
            by_stride[1 << i] = channels
        by_stride[32] = channels
        self.fc6: nn.Conv2d | None = None
        if reduced_fc and self.strides[-1] == 16:
            wide = 1024 * width // 64
            self.fc6, self.fc7 = nn.Conv2d(channels, wide, 3, dilation=6), nn.Conv2d(wide, wide, 1)
            by_stride[16] = wide
        self.channels = tuple(by_stride[s] for s in self.strides)
        self._depth, self._wide = depth, _CLASSIFIER * width // 64
        self.finish(freeze_at, frozen_norm, pretrained)

    def top(self) -> tuple[nn.Layer, int]:
        """The map in 7 x 7 cells, two linear layers of 4,096 with ReLU; a dropout of a half between them."""
        return _Top(self.channels[-1], self._wide), self._wide

    def top_names(self, scheme: str) -> Names:
        """Of the three linear layers; theirs see channel after channel, ours cell after cell."""
        if scheme == "paddledetection":
            return Names({})
        first = Source(("classifier.0.weight",), CONV_AXES, view=(-1, self.channels[-1], _CELLS, _CELLS))
        names = {"top.linear1.weight": first, "top.linear1.bias": Source(("classifier.0.bias",))}
        return Names({**names, **linear("top.linear2", "classifier.3"), **linear("fc", "classifier.6")})

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The first two blocks, then one after the other; fc6 and fc7 with the last."""
        convs, norms = list(self.convs), list(self.norms)
        blocks = [[*convs[a:b], *norms[a:b]] for a, b in zip([0, *self._ends], self._ends, strict=False)]
        if self.fc6 is not None:
            blocks[-1] += [self.fc6, self.fc7]
        return [[*blocks[0], *(blocks[1] if len(blocks) > 1 else [])], *blocks[2:]]

    def names_in(self, scheme: str) -> Names:
        """Torchvision's names in `vgg16` and `vgg19`, which timm shares; fc6 and fc7 have some in its SSD only, see
        `SSD.names_in`. Or PaddleDetection's, whose VGG has fc6 and fc7, SSD's extra levels and their scale."""
        names: dict[str, Source] = {}
        if scheme == "paddledetection":
            for at in range(len(self.convs)):
                block, i = _place(at, self._depth)
                names |= conv(f"convs.{at}", f"conv_block_{block}.conv{i}", bias=True)
            for name in ("fc6", "fc7") if self.fc6 is not None else ():
                names |= conv(name, name, bias=True)
            coarser = "|".join(str(block) for block in range(len(self._ends), 5)) or "-"
            return Names(names, (rf"^conv_block_({coarser})\.", r"^(fc[67]|conv\d+|norm0)\."))
        step = 3 if len(self.norms) else 2
        for i in range(len(self.convs)):
            at = step * i + _place(i, self._depth)[0]
            names |= conv(f"convs.{i}", f"features.{at}", bias=True)
            if step == 3:
                names |= norm_names(f"norms.{i}", f"features.{at + 1}")
        coarser = rf"^features\.({'|'.join(str(n) for n in range(step * len(self.convs) + len(self._ends) - 1, 60))})\."
        return Names(names, (r"^(classifier|pre_logits|head)\.", coarser))  # torchvision's or timm's top

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        found, start = {}, 0
        for i, end in enumerate(self._ends):
            if i:
                x = ops.max_pool2d(x, kernel=2, stride=2, ceil_mode=True)
            for at in range(start, end):
                x = self.convs[at](x)
                x = ops.relu(self.norms[at](x) if len(self.norms) else x)
            found[1 << i], start = x, end
        if self.fc6 is not None:
            x = ops.max_pool2d(x, kernel=3, stride=1, padding=1)
            found[16] = ops.relu(self.fc7(ops.relu(self.fc6(x))))
        elif self.strides[-1] == 32:
            found[32] = ops.max_pool2d(x, kernel=2, stride=2, ceil_mode=True)
        return [found[s] for s in self.strides]


class _Top(nn.Layer):
    """[N, H, W, C] to [N, D]."""

    def __init__(self, in_channels: int, features: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(_CELLS)
        self.linear1, self.linear2 = nn.Linear(in_channels * _CELLS**2, features), nn.Linear(features, features)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, D]."""
        x = ops.relu(self.linear1(ops.flatten(self.pool(x), start=1)))
        return ops.relu(self.linear2(self.dropout(x)))


def torchvision_name(name: str, depth: int = 16) -> str:
    """What torchvision's `vgg16` (or `vgg19`) calls the parameter `convs.I.weight` or `.bias`.

    Their weights are [K, C, R, S]: transpose them to [K, R, S, C] by (0, 2, 3, 1).

    >>> torchvision_name("convs.12.weight")
    'features.28.weight'
    """
    _, number, leaf = name.split(".")
    block, _ = _place(int(number), depth)
    return f"features.{2 * int(number) + block}.{leaf}"


def _place(at: int, depth: int) -> tuple[int, int]:
    """Block of the convolution number `at`, and its number in it."""
    i = at
    for block, count in enumerate(_BLOCKS[depth]):
        if i < count:
            return block, i
        i -= count
    raise AttributeValueError(f"VGG-{depth} has no convolution {at}")
