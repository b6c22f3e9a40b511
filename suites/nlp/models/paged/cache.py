"""Pages and PageCache: states of words, or keys and values of layers, in pages; RowProducts: products row by row.

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


class Pages:
    """States of words in pages: row page * p + i of each state is of word i of page p.

    Args:
        states: of which each has a row for each word of each page.
        page: words of one.
    """

    def __init__(self, states: Sequence[Tensor], page: int) -> None:
        self.page, self.states = page, list(states)
        self._copy = program(self._copied)

    def slots(self, places: Places, like: Tensor) -> tuple[Tensor, Tensor]:
        """Where new words belong, and their places in their texts, int64 [T] each.  like: [T, ...], read for T only."""
        return ops.page_rows(places.offsets, places.tables, places.lengths, like, self.states[0], page=self.page)

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        rows = (np.array([pages, to], np.int64)[..., None] * self.page + np.arange(self.page)).reshape(2, -1)
        with no_grad():
            self._copy({"rows": rows[0], "to": rows[1]})

    def _copied(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        held = [ops.gather(state, arrays["rows"]) for state in self.states]  # all is read before the first write
        for state, rows in zip(self.states, held, strict=True):
            state.set(ops.scatter(state, arrays["to"], rows))
        return {"to": arrays["to"]}


class PageCache(Pages):
    """Keys and values [pages * page, width] of each layer.

    Args:
        layers: how many.
        width: numbers of a word's keys in a layer, and of its values.
        pages: of the cache.
        page: words of one.

    Attributes:
        keys, values: one for each layer.
    """

    def __init__(self, layers: int, width: int, *, pages: int, page: int) -> None:
        self.keys = [state_of(pages * page, width) for _ in range(layers)]
        self.values = [state_of(pages * page, width) for _ in range(layers)]
        super().__init__([*self.keys, *self.values], page)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put rows [T, width] where `slots`, int64 [T], says."""
        self.keys[layer].set(ops.scatter(self.keys[layer], slots, keys))
        self.values[layer].set(ops.scatter(self.values[layer], slots, values))

    def attend(
        self,
        layer: int,
        q: Tensor,
        places: Places,
        *,
        heads: int,
        scale: float,
        window: int = 0,
        near: nn.RelativePositions | None = None,
    ) -> Tensor:
        """What queries [T, heads * size] find, `near` with vectors of distances; see `ops.paged_attention`."""
        return ops.paged_attention(
            q, self.keys[layer], self.values[layer], places.offsets, places.tables, places.lengths,
            None if near is None else near.keys, None if near is None else near.values,
            heads=heads, page=self.page, scale=scale, window=window,
        )  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Which pages texts have: offsets [B + 1], tables [B, P] and lengths [B] as of `ops.paged_attention`, int64."""

    offsets: Tensor
    tables: Tensor
    lengths: Tensor


def looks(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a step, `look_*` instead of `source_*`.

    Each word looks at its whole source: to attention, which shows a word no later ones, it is a text of one word.
    """
    found, counts = dict(arrays), np.diff(arrays["offsets"])
    found["look_offsets"] = np.arange(len(found["ids"]) + 1)
    found["look_tables"] = np.repeat(found.pop("source_tables"), counts, axis=0)
    found["look_lengths"] = np.repeat(found.pop("source_lengths"), counts)
    return found


def source_arrays(source: Sequence[int], pages: Sequence[int]) -> dict[str, np.ndarray]:
    """The arrays of a source of S words that is read alone: source [S], offsets [2], tables [1, Q] and lengths [1]."""
    ids = np.asarray(source, np.int64)
    return {
        "source": ids,
        "offsets": np.array([0, len(ids)], np.int64),
        "tables": np.asarray(pages, np.int64)[None],
        "lengths": np.array([len(ids)], np.int64),
    }


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


def state_of(rows: int, width: int) -> Tensor:
    """Zeros [rows, width] that steps write to."""
    state = framework.tensor(np.zeros((rows, width), np.float32))
    state.persistable = True
    return state
