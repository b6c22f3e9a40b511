"""MoveNet: the points of the person in the middle of a picture, from one pass over all of it.

MobileNetV2, a pyramid to stride 4 and four heads on it, as CenterNet has them (Zhou et al. 2019, arXiv:1904.07850):
how much a cell is a person's middle, where that person's points are seen from there, heatmaps of points, and offsets
from cells to points. Source: Votel and Li 2021, "Next-Generation Pose Detection with MoveNet", and the published file.

Letters: N pictures, H W image size, h w size of the maps (a quarter), L points.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from framework import nn, ops, tensor
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, drawn, start_from
from suites.keypoints.models.base import KNOWN_POSES, PoseModel

SCHEME = "movenet"
# Of each block of MobileNetV2: channels out, stride.
_BLOCKS = (
    *((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (32, 1), (64, 2), (64, 1), (64, 1), (64, 1)),
    *((96, 1), (96, 1), (96, 1), (160, 2), (160, 1), (160, 1), (320, 1)),
)
_TAPS = (9, 5, 2)  # blocks whose maps the pyramid joins, coarse ones first
_WIDTHS = (64, 32, 24)  # of the pyramid, coarse first; behind the last step 24 again
_NEAR = 1.8  # cells that are added to a distance before it divides a score


@register("pose_model")
class MoveNet(PoseModel):
    """MoveNet Lightning's network, 2.3 million parameters, for pictures of multiples of 32 pixels; published at 192.

    It gives points, not heatmaps that others could read: `points`. It is not trained here.

    Args:
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    gives_points: ClassVar[bool] = True
    num_classes: ClassVar[int] = 1
    stride = 4
    schemes: tuple[str, ...] = (SCHEME,)

    def __init__(self, pretrained: str | None = None) -> None:
        super().__init__()
        self.pose = KNOWN_POSES["coco_person"]
        count = len(self.pose.names)
        self.stem = nn.Conv2d(3, 32, 3, 2, (0, 1, 0, 1))
        self.blocks, width = nn.LayerList(), 32
        for i, (out, stride) in enumerate(_BLOCKS):
            self.blocks.append(_Inverted(width, out, stride, 6 if i else 1))
            width = out
        self.last = nn.Conv2d(width, 1280, 1)
        self.top = nn.Conv2d(1280, _WIDTHS[0], 1)
        self.beside = nn.LayerList(nn.Conv2d(_BLOCKS[tap][0], w, 1) for tap, w in zip(_TAPS, _WIDTHS, strict=True))
        outs = (*_WIDTHS[1:], _WIDTHS[-1])
        self.ups = nn.LayerList(_Separable(w, out) for w, out in zip(_WIDTHS, outs, strict=True))
        self.centre, self.heat = _Head(1), _Head(count)
        self.offset, self.regress = _Head(2 * count), _Head(2 * count)
        start_from(self, pretrained)

    def maps(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the heads give for images [N, H, W, 3] in [-1, 1].

        Returns:
            The share of a person's middle [N, h, w, 1] and of points [N, h, w, L], offsets and places of points
            [N, h, w, 2 L] in cells, (y, x) of each point in turn.
        """
        x = ops.relu6(self.stem(images))
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        x = self.top(ops.relu6(self.last(x)))
        for tap, beside, up in zip(_TAPS, self.beside, self.ups, strict=True):
            finer = beside(found[tap])
            x = up(ops.resize_bilinear(x, like=finer) + finer)
        return ops.sigmoid(self.centre(x)), ops.sigmoid(self.heat(x)), self.offset(x), self.regress(x)

    def forward(self, images: Tensor) -> Tensor:
        """Heatmaps [N, h, w, L] of all people in images [N, H, W, 3]."""
        return self.maps(images)[1]

    def points(self, images: Tensor) -> Tensor:
        """Points of the person nearest to the middle: x, y in pixels of the images, and a score, [N, L, 3]."""
        centre, heat, offset, regress = self.maps(images)
        _, h, w, count = heat.shape
        rows, columns = _cells(h, w)  # [h * w]
        middle = 1 / (np.hypot(rows - h // 2, columns - w // 2) + _NEAR)
        flat = ops.reshape(centre, shape=(0, -1)) * tensor(middle.astype(np.float32))
        best = ops.reshape(ops.argmax(flat, axis=1), shape=(-1, 1))  # [N, 1]
        row, column = _halves(_at(regress, best), count)  # [N, 1, L]
        row = row + _places(best, rows)
        column = column + _places(best, columns)
        away = ops.sqrt(
            ops.square(tensor(rows.reshape(1, -1, 1)) - row) + ops.square(tensor(columns.reshape(1, -1, 1)) - column)
        )  # [N, h * w, L]
        scores = ops.reshape(heat, shape=(0, -1, count))
        cell = ops.argmax(scores / (away + _NEAR), axis=1)  # [N, L]
        index = ops.expand_dims(cell, axis=1)
        down, across = _halves(ops.reshape(offset, shape=(0, -1, 2 * count)), count)
        y = ops.take_along_axis(down, index, axis=1) + _places(index, rows, spread=False)
        x = ops.take_along_axis(across, index, axis=1) + _places(index, columns, spread=False)
        score = ops.take_along_axis(scores, index, axis=1)
        stacked = ops.concat([x * float(self.stride), y * float(self.stride), score], axis=1)  # [N, 3, L]
        return ops.transpose(stacked, perm=(0, 2, 1))

    def answers(self) -> dict[str, np.ndarray]:
        """A few numbers of each head for a drawn image; see `suites.engine.weights.answers`."""
        image = drawn(96 * 96 * 3, 256).reshape(1, 96, 96, 3).astype(np.float32) / 127.5 - 1
        names = ("centre", "heat", "offset", "regress")
        return {name: x.numpy()[0, 7, 5] for name, x in zip(names, self.maps(tensor(image)), strict=True)}

    def names_in(self, scheme: str) -> Names:
        """Names in MoveNet's .tflite files, whose convolutions are numbered in the order in which they run."""
        plain, depthwise = ["stem"], list[str]()
        for i in range(len(_BLOCKS)):
            plain += ([f"blocks.{i}.expand"] if i else []) + [f"blocks.{i}.project"]
            depthwise.append(f"blocks.{i}.depthwise")
            if i in _TAPS:
                plain.append(f"beside.{_TAPS.index(i)}")
        plain += ["last", "top"]
        for i in range(len(_WIDTHS)):
            plain.append(f"ups.{i}.pointwise")
            depthwise.append(f"ups.{i}.depthwise")
        for head in ("centre", "heat", "offset", "regress"):
            plain += [f"{head}.inner.pointwise", f"{head}.out"]
            depthwise.append(f"{head}.inner.depthwise")
        sources: dict[str, Source] = {}
        for kind, paths in (("conv_2d", plain), ("depthwise_conv_2d", depthwise)):
            for i, path in enumerate(paths):
                sources |= {f"{path}.{word}": Source((f"{kind}.{i}.{word}",)) for word in ("weight", "bias")}
        return Names(sources)


def _cells(h: int, w: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each cell, float32 [h * w]."""
    rows, columns = np.mgrid[:h, :w].astype(np.float32)
    return rows.reshape(-1), columns.reshape(-1)


def _places(index: Tensor, values: np.ndarray, *, spread: bool = True) -> Tensor:
    """values[index], with an axis more behind it where `spread`."""
    found = ops.gather(tensor(values), index, axis=0)
    return ops.expand_dims(found, axis=2) if spread else found


def _at(x: Tensor, index: Tensor) -> Tensor:
    """[N, 1, C] of x [N, h, w, C] at one cell each, [N, 1]."""
    flat = ops.reshape(x, shape=(0, -1, x.shape[3]))
    return ops.take_along_axis(flat, ops.expand_dims(index, axis=2) + tensor(np.zeros((1, 1, x.shape[3]), np.int64)), 1)


def _halves(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """y and x, [N, M, L] each, of [N, M, 2 L]."""
    both = ops.reshape(x, shape=(0, 0, count, 2))
    return both[:, :, :, 0], both[:, :, :, 1]


class _Inverted(nn.Layer):
    """MobileNetV2's block with its norms folded.  x: [N, H, W, C], y: [N, H/s, W/s, K]."""

    def __init__(self, channels: int, out: int, stride: int, factor: int) -> None:
        super().__init__()
        inner = channels * factor
        self.expand = nn.Conv2d(channels, inner, 1) if factor > 1 else None
        self.depthwise = nn.Conv2d(inner, inner, 3, stride, (0, 1, 0, 1) if stride == 2 else 1, groups=inner)
        self.project = nn.Conv2d(inner, out, 1)
        self.shortcut = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        y = x if self.expand is None else ops.relu6(self.expand(x))
        y = self.project(ops.relu6(self.depthwise(y)))
        return x + y if self.shortcut else y


class _Separable(nn.Layer):
    """relu(1x1(depthwise 3x3(x))).  x: [N, H, W, C], y: [N, H, W, K]."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, 1, 1, groups=channels)
        self.pointwise = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return ops.relu(self.pointwise(self.depthwise(x)))


class _Head(nn.Layer):
    """A separable convolution to 96 channels, and a 1x1 one.  x: [N, H, W, 24], y: [N, H, W, K]."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self.inner = _Separable(_WIDTHS[-1], 96)
        self.out = nn.Conv2d(96, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 24]."""
        return self.out(self.inner(x))
