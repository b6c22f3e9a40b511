"""Clicks: rows of a click log as arrays, and batches of them. The layout of docs/howto/ctr.md, "Batches".

Letters: N rows, F sparse features, T values laid end to end, D dense features, L labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

Ragged = tuple[np.ndarray, np.ndarray]  # values [T], offsets int64 [N + 1]


@dataclass(frozen=True)
class Clicks:
    """N rows.

    Attributes:
        sparse: int64 [N, F] signs.
        ragged: by name, int64 signs [T] and offsets [N + 1].
        dense: float32 [N, D]; NaN for a missing number until the schema's transform was applied.
        labels: float32 [N, L]; None where they are not known.
        weight: float32 [N], or None.
        group: int64 [N], or None.
        time: int64 [N], in seconds, or None.
    """

    sparse: np.ndarray
    ragged: Mapping[str, Ragged]
    dense: np.ndarray
    labels: np.ndarray | None = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    time: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.sparse)

    def take(self, rows: np.ndarray) -> Clicks:
        """The rows at these places, int64 [n]."""

        def of(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else array[rows]

        ragged = {name: take_ragged(*pair, rows) for name, pair in self.ragged.items()}
        arrays = {name: of(getattr(self, name)) for name in ("labels", "weight", "group", "time")}
        return replace(self, sparse=self.sparse[rows], dense=self.dense[rows], ragged=ragged, **arrays)

    def batch(self) -> dict[str, np.ndarray]:
        """The arrays by the names that models take."""
        found = {"sparse": self.sparse, "dense": self.dense}
        for name, (values, offsets) in self.ragged.items():
            found |= {name: values, f"{name}.offsets": offsets}
        for name in ("labels", "weight", "group", "time"):
            array = getattr(self, name)
            if array is not None:
                found[name] = array
        return found


def take_ragged(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> Ragged:
    """The sequences at these places, laid end to end again."""
    lengths = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(lengths)
    new = np.concatenate([np.zeros(1, np.int64), ends])
    places = np.repeat(offsets[rows] - new[:-1], lengths) + np.arange(new[-1])
    return values[places], new
