"""What segmentation networks share: checks, heads, separable convolutions, pooling to a grid.

Letters: N batch, h w size of a map, C channels in, K classes, g cells on a grid's side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework import nn, ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import Block, Place
from suites.vision.backbones.walk import places, walk


def check_classes(who: str, num_classes: int) -> int:
    """Returns K; raises AttributeValueError for fewer than 2."""
    if num_classes < 2:
        raise AttributeValueError(f"{who}: num_classes is {num_classes}; it must be 2 or more")
    return num_classes


def check_maps(who: str, backbone: Backbone, count: int, example: str) -> None:
    """Raises AttributeValueError unless the backbone gives `count` maps; `example` says how to ask for them."""
    if len(backbone.channels) != count:
        raise AttributeValueError(
            f"{who}: backbone gives {len(backbone.channels)} maps (strides {list(backbone.strides)}); it must give "
            f"{example}"
        )


def whole_image_rule(part: Part, who: str) -> Iterator[Problem]:
    """A network that pools whole images cannot train on single ones: batch norm of a single number is always 0."""
    if part.config["data.train.batch_size"] < 2:
        text = f"is 1; {who} pools whole images, so a batch needs 2 or more"
        yield part.config.problem("data.train.batch_size", text)


def separable(in_channels: int, out_channels: int, dilation: int = 1, stride: int = 1, act: str = "relu") -> nn.Layer:
    """A depthwise 3x3 and a 1x1 convolution, each with batch norm; `act` behind the first, ReLU behind the second."""
    return nn.Sequential(
        nn.ConvBNAct(in_channels, in_channels, 3, stride, in_channels, dilation, act=act),
        nn.ConvBNAct(in_channels, out_channels, 1),
    )


def classifier(in_channels: int, num_classes: int) -> nn.Conv2d:
    """The last 1x1 convolution, to logits."""
    return nn.Conv2d(in_channels, num_classes, 1, initializer=nn.init.Normal(0.01))


class Head(nn.Sequential):
    """Convolution with batch norm and ReLU, dropout, 1x1 convolution.  x: [N, h, w, C], logits: [N, h, w, K].

    Args:
        in_channels: C.
        channels: of the first convolution.
        num_classes: K.
        kernel: of the first convolution.
        dropout: share of its output that is dropped in training.
    """

    def __init__(
        self, in_channels: int, channels: int, num_classes: int, kernel: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__(
            nn.ConvBNAct(in_channels, channels, kernel), nn.Dropout(dropout), classifier(channels, num_classes)
        )


class PyramidPooling(nn.Layer):
    """Means over grids of several sizes beside the map itself (Zhao et al. 2017, arXiv:1612.01105, section 3.2).

    x: [N, h, w, C]; y: [N, h, w, out_channels].

    Args:
        in_channels: C.
        out_channels: of the merging convolution.
        kernel: of the merging convolution.
        grids: g of each; each gives C / (number of grids) channels.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, grids: Sequence[int] = (1, 2, 3, 6)) -> None:
        super().__init__()
        self._grids = tuple(grids)
        each = in_channels // len(grids)
        self.branches = nn.LayerList(nn.ConvBNAct(in_channels, each, 1) for _ in grids)
        self.merge = nn.ConvBNAct(in_channels + each * len(grids), out_channels, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, h, w, C]; y: [N, h, w, out_channels]."""
        pooled = zip(self.branches, pooled_to_grids(x, self._grids), strict=True)
        return self.merge(ops.concat([x, *(ops.resize_bilinear(branch(cells), x) for branch, cells in pooled)], axis=3))


def pooled_to_grids(x: Tensor, grids: Sequence[int]) -> list[Tensor]:
    """The means of x [N, h, w, C] over g x g cells, [N, g, g, C] for each g: "adaptive" average pooling.

    Cell i of g has the pixels from floor(i h / g) to ceil((i + 1) h / g), so that cells of sides that g does not divide
    overlap. One Program does it for any h and w: the cells are a product with shares that are computed from the size.
    """
    tall, wide = _shares(x, 1, grids), _shares(x, 2, grids)
    rows = ops.unflatten_like(ops.matmul(tall, ops.flatten(x, start=2, end=3)), x, axis=2, start=2, end=3)
    found, at = [], 0
    for g in grids:
        found.append(ops.matmul(wide[at : at + g], rows[:, at : at + g]))
        at += g
    return found


def _shares(x: Tensor, axis: int, grids: Sequence[int]) -> Tensor:
    """What each pixel along an axis counts in the mean of each cell: [sum of g, extent], cells of all grids."""
    sides = tensor([[float(g)] for g in grids for _ in range(g)])
    cells = tensor([[float(i)] for g in grids for i in range(g)])
    with no_grad():
        pixel = ops.cast(ops.positions(x, axis=axis), dtype="float32")  # j reaches from j to j + 1
        extent = ops.cast(ops.extent(x, axis=axis), dtype="float32")
        inside = ops.logical_and(sides * (pixel + 1.0) > cells * extent, sides * pixel < (cells + 1.0) * extent)
        counted = ops.cast(inside, dtype="float32")
        return ops.cast(counted / ops.sum(counted, axes=(1,), keepdims=True), dtype=x.dtype)


def stage_ends(backbone: Backbone) -> list[Place]:
    """The last block of each stage, a run of blocks with the same stride and channels, in the order of the image's way.

    Raises:
        NotSupportedError: the backbone is not made of blocks.
    """
    blocks = places(backbone)
    behind: list[Place | None] = [*blocks[1:], None]
    return [
        a for a, b in zip(blocks, behind, strict=True) if b is None or (a.stride, a.channels) != (b.stride, b.channels)
    ]


def walk_with(backbone: Backbone, images: Tensor, at: Place) -> tuple[Tensor, list[Tensor]]:
    """The map behind the block at `at`, and the backbone's maps."""
    seen: list[Tensor] = []

    def visit(place: Place, block: Block, x: Tensor) -> Tensor:
        y = block(x)
        if place == at:
            seen.append(y)
        return y

    maps = walk(backbone, images, visit)
    return seen[0], maps
