"""Swin-T, S and B: attention within windows that shift from block to block (Liu et al. 2021, arXiv:2103.14030).

Letters: N batch, H W height and width of a map, C channels, w side of a window, V windows of an image, h heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor, tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import check_strides
from suites.vision.backbones.naming import conv, joined, layer_norm, linear
from suites.vision.backbones.staged import Stage, Staged

# size -> blocks of each stage, channels and heads of the first
PLANS = {"tiny": ((2, 2, 6, 2), 96, 3), "small": ((2, 2, 18, 2), 96, 3), "base": ((2, 2, 18, 2), 128, 4)}
_WINDOW = 7
_EXPANSION = 4
_OUT_OF_SIGHT = -100.0  # added to scores across the seam of a shifted map
_BY_HAND = init.TruncatedNormal(0.02)


@register("backbone")
class Swin(Staged):
    """Patches of 4 x 4, then four stages of blocks; between them 2 x 2 cells become one.

    Attention works in windows of 7 x 7 cells, shifted by 3 in every second block. Any image size will do: maps are
    padded with zeros to whole windows, as in torchvision, and a side of one window is not shifted. The maps of strides
    4, 8 and 16 are those of the stages' ends; that of stride 32 has the last layer norm.

    Args:
        size: "tiny", "small" or "base".
        out_strides: strides of the maps given out, of 4, 8, 16, 32; the network ends at the last.
        freeze_at: how much is not trained: 0 nothing, 1 the stem, 2 the first stage too, and so on up to 5.
        pretrained: name or file of published weights, such as swin_t_imagenet; see docs/howto/pretrained.md.
        width: channels of the first stage, a multiple of its heads; the size's own when None.
    """

    schemes: tuple[str, ...] = ("torchvision", "timm", "transformers")

    def __init__(
        self,
        size: Literal["tiny", "small", "base"] = "tiny",
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        freeze_at: int = 0,
        pretrained: str | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__()
        if size not in PLANS:
            raise AttributeValueError(f"Swin: size is {size!r}; it must be one of {[*PLANS]}")
        self.strides = check_strides("Swin", out_strides, (4, 8, 16, 32))
        self._counts, own, self._heads = PLANS[size]
        self._width = own if width is None else width
        if self._width < 1 or self._width % self._heads:
            raise AttributeValueError(f"Swin: width is {self._width}; it must be a multiple of its {self._heads} heads")
        self.unread = (r"\.relative_position_index$", r"\.attn_mask$", r"^pooler\.")
        self.stem = nn.Sequential(nn.Conv2d(3, self._width, 4, 4, padding=0), nn.LayerNorm(self._width))
        self.keep(self._plan())
        self.finish(freeze_at, pretrained=pretrained)

    def _plan(self) -> Iterator[Stage]:
        for i, count in enumerate(self._counts):
            out, heads, last = self._width << i, self._heads << i, i == len(self._counts) - 1
            yield 4 << i, out, partial(_Stage, out, heads, count, merges=i > 0, last=last)

    def all_names(self, scheme: str) -> dict[str, Source]:
        """Names of torchvision, timm or transformers."""
        stem = {
            "torchvision": ("features.0.0", "features.0.2"),
            "timm": ("patch_embed.proj", "patch_embed.norm"),
            "transformers": ("embeddings.patch_embeddings.projection", "embeddings.norm"),
        }[scheme]
        names = {**conv("stem.0", stem[0], bias=True), **layer_norm("stem.1", stem[1])}
        for i, count in enumerate(self._counts):
            if i:
                down = _merging_name(scheme, i)
                names |= layer_norm(f"stages.{i}.down.norm", f"{down}.norm")
                names[f"stages.{i}.down.merge.weight"] = Source((f"{down}.reduction.weight",))
            for j in range(count):
                names |= _block_names(f"stages.{i}.blocks.{j}", _block_name(scheme, i, j), scheme)
        last = "layernorm" if scheme == "transformers" else "norm"
        return {**names, **layer_norm(f"stages.{len(self._counts) - 1}.norm", last)}

    def place_in(self, scheme: str) -> str:
        """Transformers' classifiers have it under the model's name."""
        return "swin." if scheme == "transformers" else ""

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        fc = {"torchvision": "head", "timm": "head.fc", "transformers": "classifier"}[scheme]
        return Names(linear("fc", fc))


def _merging_name(scheme: str, stage: int) -> str:
    return {
        "torchvision": f"features.{2 * stage}",
        "timm": f"layers.{stage}.downsample",
        "transformers": f"encoder.layers.{stage - 1}.downsample",
    }[scheme]


def _block_name(scheme: str, stage: int, block: int) -> str:
    return {
        "torchvision": f"features.{2 * stage + 1}.{block}",
        "timm": f"layers.{stage}.blocks.{block}",
        "transformers": f"encoder.layers.{stage}.blocks.{block}",
    }[scheme]


# Norms, the table of positions, attention's output, both linear layers.
_BLOCKS = {
    "torchvision": ("norm1", "norm2", "attn.relative_position_bias_table", "attn.proj", "mlp.0", "mlp.3"),
    "timm": ("norm1", "norm2", "attn.relative_position_bias_table", "attn.proj", "mlp.fc1", "mlp.fc2"),
    "transformers": (
        "layernorm_before", "layernorm_after", "attention.self.relative_position_bias_table", "attention.output.dense",
        "intermediate.dense", "output.dense",
    ),
}  # fmt: skip


def _block_names(ours: str, theirs: str, scheme: str) -> dict[str, Source]:
    norm1, norm2, table, out, up, down = (f"{theirs}.{name}" for name in _BLOCKS[scheme])
    names = {**layer_norm(f"{ours}.norm1", norm1), **layer_norm(f"{ours}.norm2", norm2)}
    names |= linear(f"{ours}.out", out) | linear(f"{ours}.up", up) | linear(f"{ours}.down", down)
    names[f"{ours}.table"] = Source((table,))
    if scheme == "transformers":
        return names | joined(f"{ours}.qkv", [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")])
    return names | linear(f"{ours}.qkv", f"{theirs}.attn.qkv")


class _Merging(nn.Layer):
    """2 x 2 cells to one, a layer norm, a linear layer.  x: [N, H, W, C], y: [N, ceil(H/2), ceil(W/2), 2 C]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * channels)
        self.merge = nn.Linear(4 * channels, 2 * channels, bias=False, initializer=_BY_HAND)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, ceil(H/2), ceil(W/2), 2 C]; a last odd row or column meets zeros."""
        x = ops.pad(x, pads=(0, 0, 0, 1, 0, 1, 0, 0))
        # Even cells begin at 0 and end before the padding; odd ones begin at 1 and may be the padding.
        quarters = [
            x[:, i : -1 if i == 0 else None : 2, j : -1 if j == 0 else None : 2] for j in (0, 1) for i in (0, 1)
        ]
        return self.merge(self.norm(ops.concat(quarters, axis=3)))


class _Stage(nn.Layer):
    """What merges cells, if they are merged, then blocks.  x: [N, H, W, C], y: [N, H', W', K]."""

    def __init__(self, channels: int, heads: int, count: int, merges: bool, last: bool) -> None:
        super().__init__()
        self.down = _Merging(channels // 2) if merges else None
        self.blocks = nn.LayerList(_Block(channels, heads, shifted=i % 2 == 1) for i in range(count))
        self.norm = nn.LayerNorm(channels) if last else None

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        x = x if self.down is None else self.down(x)
        windows = [_windows(x, shifted) for shifted in (False, True)]
        for i, block in enumerate(self.blocks):
            assert isinstance(block, _Block)
            x = block(x, windows[i % 2])
        return x if self.norm is None else self.norm(x)


@dataclass(frozen=True)
class _Windows:
    """Which cells of a map are in which window.

    Attributes:
        cells: int64 [V w^2], for each place of each window the number of its cell in the map.
        inside: bool [V w^2, 1], false for places of the padding.
        places: int64 [H W], for each cell its place.
        sight: float [V, 1, w^2, w^2] that is added to scores, of a shifted map; None where all of a window is seen.
    """

    cells: Tensor
    inside: Tensor
    places: Tensor
    sight: Tensor | None


def _windows(x: Tensor, shifted: bool) -> _Windows:
    """Those of a map [N, H, W, C]."""
    # A pooled and enlarged channel has the padded map's extents, which are known only when it runs.
    coarse = ops.max_pool2d(x[:1, :, :, :1], kernel=_WINDOW, stride=_WINDOW, ceil_mode=True)
    sides = [_Side.of(x, coarse, axis, shifted) for axis in (1, 2)]
    rows, columns = sides
    cells = _grid(rows.cells, 0) * columns.length + _grid(columns.cells, 1)
    inside = ops.logical_and(
        _grid(ops.less(rows.cells, rows.length), 0), _grid(ops.less(columns.cells, columns.length), 1)
    )
    least = ops.minimum(cells, rows.length * columns.length - 1)
    row, column = ops.expand_dims(rows.places, axis=1), ops.expand_dims(columns.places, axis=0)
    window = ops.floor_div(row, _WINDOW) * ops.extent(coarse, axis=2) + ops.floor_div(column, _WINDOW)
    places = (window * _WINDOW + ops.mod(row, _WINDOW)) * _WINDOW + ops.mod(column, _WINDOW)
    sight = None
    if shifted:
        region = ops.reshape(_grid(rows.regions, 0) * 3 + _grid(columns.regions, 1), shape=(-1, 1, _WINDOW**2))
        same = ops.equal(ops.expand_dims(region, axis=3), ops.expand_dims(region, axis=2))
        sight = ops.where(same, 0.0, _OUT_OF_SIGHT)
    flat = (ops.reshape(least, shape=(-1,)), ops.reshape(inside, shape=(-1, 1)), ops.reshape(places, shape=(-1,)))
    return _Windows(*flat, sight)


@dataclass(frozen=True)
class _Side:
    """One side of a map cut into windows; A is their number, L the side's length.

    Attributes:
        length: int64 [], L.
        cells: int64 [A, w], which cell lies at each place of each window; L and more are padding.
        places: int64 [L], where each cell lies, w times the window's number and its place in it.
        regions: int64 [A, w], 0 to 2: what a place sees are those of its own region.
    """

    length: Tensor
    cells: Tensor
    places: Tensor
    regions: Tensor

    @classmethod
    def of(cls, x: Tensor, coarse: Tensor, axis: int, shifted: bool) -> _Side:
        """`coarse` has a cell for each window."""
        length, padded = ops.extent(x, axis=axis), ops.extent(coarse, axis=axis) * _WINDOW
        by = _WINDOW // 2 if shifted else 0
        shift = ops.where(ops.greater(padded, _WINDOW), by, 0)  # a single window is not shifted
        steps = ops.arange(0, _WINDOW, dtype="int64")
        at = ops.expand_dims(ops.positions(coarse, axis=axis), axis=1) * _WINDOW + steps
        regions = ops.cast(ops.greater_equal(at, padded - _WINDOW), "int64") + ops.cast(
            ops.greater_equal(at, padded - shift), "int64"
        )
        places = ops.mod(ops.positions(x, axis=axis) - shift + padded, padded)
        return cls(length, ops.mod(at + shift, padded), places, regions)


def _grid(side: Tensor, axis: int) -> Tensor:
    """[A, w] of rows (axis 0) or columns as [A, 1, w, 1] or [1, A, 1, w]."""
    return ops.reshape(side, shape=(-1, 1, _WINDOW, 1) if axis == 0 else (1, -1, 1, _WINDOW))


class _Block(nn.Layer):
    """x + out(attention(norm1(x))), then + down(gelu(up(norm2(x)))).  x, y: [N, H, W, C]."""

    table: Tensor

    def __init__(self, channels: int, heads: int, shifted: bool) -> None:
        super().__init__()
        self._channels, self._heads, self._shifted = channels, heads, shifted
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels, initializer=_BY_HAND)
        self.out = nn.Linear(channels, channels, initializer=_BY_HAND)
        self.up = nn.Linear(channels, _EXPANSION * channels, initializer=_BY_HAND)
        self.down = nn.Linear(_EXPANSION * channels, channels, initializer=_BY_HAND)
        self.add_parameter("table", ((2 * _WINDOW - 1) ** 2, heads), _BY_HAND)

    def forward(self, x: Tensor, windows: _Windows) -> Tensor:
        """x, y: [N, H, W, C]."""
        x = x + self._attend(self.norm1(x), windows)
        return x + self.down(ops.gelu(self.up(self.norm2(x))))

    def _attend(self, x: Tensor, windows: _Windows) -> Tensor:
        cells = ops.gather(ops.flatten(x, start=1, end=2), windows.cells, axis=1)
        cells = ops.where(windows.inside, cells, 0.0)
        q, k, v = ops.split(
            self.qkv(ops.reshape(cells, shape=(-1, _WINDOW**2, self._channels))), axis=2, sizes=[self._channels] * 3
        )
        y, _ = ops.scaled_dot_product_attention(q, k, v, self._scores(q, windows.sight), heads=self._heads)
        rows = ops.reshape_like(self.out(y), cells)
        return ops.reshape_like(ops.gather(rows, windows.places, axis=1), x)

    def _scores(self, q: Tensor, sight: Tensor | None) -> Tensor:
        """What is added to scores: [1, h, w^2, w^2], or one for each of N V windows."""
        bias = ops.gather(self.table, tensor(_neighbours()), axis=0)
        bias = ops.expand_dims(
            ops.transpose(ops.reshape(bias, shape=(_WINDOW**2, _WINDOW**2, -1)), perm=(2, 0, 1)), axis=0
        )
        if sight is None:
            return bias
        windows = ops.mod(ops.positions(q, axis=0), ops.extent(sight, axis=0))
        return ops.gather(bias + sight, windows, axis=0)


def _neighbours() -> np.ndarray:
    """int64 [w^4]: for each pair of places of a window the row of the table of their distance."""
    y, x = np.divmod(np.arange(_WINDOW**2), _WINDOW)
    dy, dx = y[:, None] - y + _WINDOW - 1, x[:, None] - x + _WINDOW - 1
    return (dy * (2 * _WINDOW - 1) + dx).reshape(-1)
