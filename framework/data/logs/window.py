"""RowWindow: rows of some blocks in the order in which batches take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework import _core
from framework.data.streams import window_rng


@dataclass(frozen=True)
class RowWindow:
    """Rows of some blocks.

    Args:
        parts: the blocks' rows.
        part, row: int32 [N], where each row is.
        position: of the reader, before the window.
        resumed: whether a saved position may lie within it.
    """

    parts: list[_core.LogRows]
    part: np.ndarray
    row: np.ndarray
    position: dict[str, Any]
    resumed: bool

    @property
    def rows(self) -> int:
        """N."""
        return len(self.row)

    @classmethod
    def of(
        cls, parts: list[_core.LogRows], position: dict[str, Any], resumed: bool, draw: tuple[int | None, int, int]
    ) -> RowWindow:
        """The rows of `parts` in their order; or in one drawn from (seed, epoch, window), unless the seed is None."""
        counts = [rows.count for rows in parts]
        part = np.repeat(np.arange(len(parts), dtype=np.int32), counts)
        row = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
        seed, epoch, number = draw
        if seed is not None:
            order = window_rng(seed, epoch, number).permutation(len(row))
            part, row = part[order], row[order]
        return cls(parts, part, row, position, resumed)


def gather(pieces: Sequence[tuple[RowWindow, int, int]]) -> _core.LogRows:
    """Rows of windows, each (window, begin, end), as one."""
    parts: list[_core.LogRows] = []
    part, row = [], []
    for window, begin, end in pieces:
        part.append(window.part[begin:end] + np.int32(len(parts)))
        row.append(window.row[begin:end])
        parts += window.parts
    return _core.gather_log(parts, np.concatenate(part), np.concatenate(row))
