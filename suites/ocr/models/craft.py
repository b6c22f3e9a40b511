"""CRAFT: maps of where characters are and where they belong together (Baek et al. 2019, arXiv:1904.01941).

The network is the authors': VGG-16 with batch norms, two convolutions with holes, a path back up with shortcuts, and a
head. Letters: N images, H W their size, C channels.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops, tensor
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.ocr.models.base import TextDetector
from suites.vision.backbones.base import drawn_image
from suites.vision.backbones.naming import conv, norm

# Channels of the convolutions between two poolings, and which slice and numbers they have in the authors' file.
_BLOCKS = (
    ((64, 64), ("slice1.0", "slice1.3")),
    ((128, 128), ("slice1.7", "slice1.10")),
    ((256, 256, 256), ("slice2.14", "slice2.17", "slice3.20")),
    ((512, 512, 512), ("slice3.24", "slice3.27", "slice4.30")),
    ((512, 512), ("slice4.34", "slice4.37")),
)
_SEEN = ((1, 1), (2, 1), (3, 1))  # block and convolution whose values the way up takes, finest first
_WIDE = 1024
_UP = ((_WIDE + 512, 512, 256), (256 + 512, 256, 128), (128 + 256, 128, 64), (64 + 128, 64, 32))
_HEAD = ((32, 32, 3), (32, 32, 3), (32, 16, 3), (16, 16, 1), (16, 2, 1))
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Pair(nn.Layer):
    """A 1x1 and a 3x3 convolution with batch norms.  x: [N, H, W, C], y: [N, H, W, K].

    Args:
        in_channels: C.
        middle: channels between.
        out_channels: K.
    """

    def __init__(self, in_channels: int, middle: int, out_channels: int) -> None:
        super().__init__()
        self.convs = nn.LayerList([nn.Conv2d(in_channels, middle, 1), nn.Conv2d(middle, out_channels, 3)])
        self.norms = nn.LayerList([nn.BatchNorm(middle), nn.BatchNorm(out_channels)])

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, K]."""
        for conv_, norm_ in zip(self.convs, self.norms, strict=True):
            x = ops.relu(norm_(conv_(x)))
        return x


@register("text_model")
class Craft(TextDetector):
    """Images to the maps of characters and of the links between them, at half their size.

    It is not trained here: its authors' recipe takes boxes of single characters. Find texts with `finding: {threshold:
    0.4, box_threshold: 0.7}`; see `Finding`.

    Args:
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("easyocr",)

    def __init__(self, pretrained: str | None = None) -> None:
        super().__init__()
        width, convs, norms = 3, [], []
        for channels, _ in _BLOCKS:
            for out in channels:
                convs.append(nn.Conv2d(width, out, 3))
                norms.append(nn.BatchNorm(out))
                width = out
        self.convs, self.norms = nn.LayerList(convs), nn.LayerList(norms)
        self.holes = nn.Conv2d(width, _WIDE, 3, padding=6, dilation=6)
        self.wide = nn.Conv2d(_WIDE, _WIDE, 1)
        self.up = nn.LayerList([Pair(*sizes) for sizes in _UP])
        self.head = nn.LayerList([nn.Conv2d(one, two, kernel) for one, two, kernel in _HEAD])
        start_from(self, pretrained)

    def forward(self, images: Tensor) -> Tensor:
        """[N, H/2, W/2, 2], characters and links, of images [N, H, W, 3], blue, green, red from -1 to 1."""
        found, seen = self._down(_coloured(images))
        shortcuts = [found, *seen[::-1]]
        x = self.wide(self.holes(ops.max_pool2d(found, kernel=3, stride=1, padding=1)))
        for k, (pair, shortcut) in enumerate(zip(self.up, shortcuts, strict=True)):
            x = ops.resize_bilinear(x, shortcut) if k else x
            x = pair(ops.concat([x, shortcut], axis=-1))
        for k, conv_ in enumerate(self.head):
            x = conv_(x if k == 0 else ops.relu(x))
        return x

    def _down(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last norm's values, and those that the way up takes, finest first."""
        seen, k = [], 0
        for block, (channels, _) in enumerate(_BLOCKS):
            if block:
                x = ops.max_pool2d(x, kernel=2, stride=2)
            for at in range(len(channels)):
                x = self.norms[k](self.convs[k](x))
                k += 1
                if k < len(self.convs):
                    x = ops.relu(x)
                if (block, at) in _SEEN:
                    seen.append(x)
        return x, seen

    def names_in(self, scheme: str) -> Names:
        """The authors' names."""
        names: dict[str, Source] = {}
        places = [place for _, given in _BLOCKS for place in given]
        for k, place in enumerate(places):
            piece, _, number = place.partition(".")
            names |= conv(f"convs.{k}", f"basenet.{place}", bias=True)
            names |= norm(f"norms.{k}", f"basenet.{piece}.{int(number) + 1}")
        names |= conv("holes", "basenet.slice5.1", bias=True) | conv("wide", "basenet.slice5.2", bias=True)
        for k in range(len(self.up)):
            for part, at in ((0, 0), (1, 3)):
                names |= conv(f"up.{k}.convs.{part}", f"upconv{k + 1}.conv.{at}", bias=True)
                names |= norm(f"up.{k}.norms.{part}", f"upconv{k + 1}.conv.{at + 1}")
        for k in range(len(self.head)):
            names |= conv(f"head.{k}", f"conv_cls.{2 * k}", bias=True)
        return Names(names)

    def answers(self) -> dict[str, np.ndarray]:
        """The mean of characters in each row of a drawn image; see `suites.engine.weights.answers`."""
        return {"text": self(drawn_image()).numpy()[0, :, :, 0].mean(axis=1)}


def _coloured(images: Tensor) -> Tensor:
    """Red, green, blue with ImageNet's mean and deviation, of blue, green, red from -1 to 1."""
    matrix = np.zeros((3, 3), np.float32)
    for k, std in enumerate(_STD):
        matrix[2 - k, k] = 0.5 / std
    shift = (0.5 - np.array(_MEAN, np.float32)) / np.array(_STD, np.float32)
    return ops.matmul(images, tensor(matrix)) + tensor(shift.astype(np.float32))
