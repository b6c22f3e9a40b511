"""PageCache: keys and values of a model's layers in pages; RowProducts: products that no other row changes.

Every product and every attention of a step sums in an order that neither the batch nor the pages change: what a text
gets has the same bits whoever shares the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import framework
from framework import nn, no_grad, ops, program
from framework.errors import AttributeValueError
from framework.tensors import Tensor

_GROUP = 64  # columns of 8-bit weights with one scale


class PageCache:
    """Keys and values [pages * page, width] of each layer.

    Args:
        layers: how many.
        width: numbers of a word's keys in a layer, and of its values.
        pages: of the cache.
        page: words of one.

    Attributes:
        page: words of one.
        keys, values: one for each layer.
    """

    def __init__(self, layers: int, width: int, *, pages: int, page: int) -> None:
        self.page = page
        self.keys = [_state(pages * page, width) for _ in range(layers)]
        self.values = [_state(pages * page, width) for _ in range(layers)]
        self._copy = program(self._copied)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put rows [T, width] where `slots`, int64 [T], says."""
        self.keys[layer].set(ops.scatter(self.keys[layer], slots, keys))
        self.values[layer].set(ops.scatter(self.values[layer], slots, values))

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        rows = (np.array([pages, to], np.int64)[..., None] * self.page + np.arange(self.page)).reshape(2, -1)
        with no_grad():
            self._copy({"rows": rows[0], "to": rows[1]})

    def _copied(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        states = [*self.keys, *self.values]
        held = [ops.gather(state, arrays["rows"]) for state in states]  # all is read before the first write
        for state, rows in zip(states, held, strict=True):
            state.set(ops.scatter(state, arrays["to"], rows))
        return {"to": arrays["to"]}

    def attend(self, layer: int, q: Tensor, places: Places, *, heads: int, scale: float, window: int = 0) -> Tensor:
        """What queries [T, heads * size] find; see `ops.paged_attention`."""
        return ops.paged_attention(
            q, self.keys[layer], self.values[layer], places.offsets, places.tables, places.lengths,
            heads=heads, page=self.page, scale=scale, window=window,
        )  # fmt: skip

    def slots(self, places: Places, like: Tensor) -> tuple[Tensor, Tensor]:
        """Where new words belong, and their places in their texts, int64 [T] each.  like: [T, ...], read for T only."""
        slots, at = ops.page_rows(places.offsets, places.tables, places.lengths, like, self.keys[0], page=self.page)
        return slots, at


@dataclass(frozen=True)
class Places:
    """Which pages texts have: offsets [B + 1], tables [B, P] and lengths [B] as of `ops.paged_attention`, int64."""

    offsets: Tensor
    tables: Tensor
    lengths: Tensor


class RowProducts:
    """Products of linear layers, row by row.

    Args:
        weights: of those that are kept in 8 bits.
    """

    def __init__(self, weights: Sequence[Tensor] = ()) -> None:
        self._small = {id(weight): in_8_bits(weight.numpy()) for weight in weights}

    def layer(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """x W^T + b of a layer."""
        return self.rows(x, layer.weight, layer.bias)

    def rows(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W^T + b."""
        if (small := self._small.get(id(weight))) is not None:
            return ops.linear_by_rows(x, small[0], bias, small[1])
        return ops.linear_by_rows(x, weight, bias)


Product = Callable[[nn.Linear, Tensor], Tensor]


def layers_of(model: nn.Layer) -> list[nn.Linear]:
    """All linear layers; AttributeValueError for one of another kind, whose product would not be its weights' alone."""
    found = [layer for _, layer in model.named_layers() if isinstance(layer, nn.Linear)]
    strange = [type(layer).__name__ for layer in found if type(layer) is not nn.Linear]
    if strange:
        raise AttributeValueError(f"PagedSteps: {strange[0]} is no plain linear layer; merge its weights first")
    return found


def in_8_bits(weight: np.ndarray, group: int = _GROUP) -> tuple[Tensor, Tensor]:
    """int8 [K, C] and scales float32 [K, G] of a weight [K, C]: of each group of columns the largest becomes 127.

    Columns that groups do not divide are one group a row.
    """
    rows, columns = weight.shape
    groups = columns // group if columns % group == 0 else 1
    parts = weight.reshape(rows, groups, -1)
    scale = np.maximum(np.abs(parts).max(axis=2), 1e-30) / 127
    rounded = np.rint(parts / scale[..., None]).astype(np.int8).reshape(rows, columns)
    return framework.tensor(rounded), framework.tensor(scale.astype(np.float32))


def _state(rows: int, width: int) -> Tensor:
    state = framework.tensor(np.zeros((rows, width), np.float32))
    state.persistable = True
    return state
