"""Labels of channels: each place along an axis has one, and places that can only go together come to share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Axis = np.ndarray | None  # int64 [extent], a label each place; None where the places of an axis are no channels
Labels = list[Axis]  # of a value, an item each axis


class Classes:
    """A union of sets over labels, and why some of them have to stay (union-find with path halving)."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._reasons: dict[int, str] = {}

    def fresh(self, count: int) -> np.ndarray:
        """New labels, int64 [count], each in a set of its own."""
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return np.arange(first, first + count)

    def find(self, label: int) -> int:
        """The set that a label is in, by one of its labels."""
        parents = self._parents
        while parents[label] != label:
            parents[label] = label = parents[parents[label]]
        return label

    def join(self, a: Axis, b: Axis, why: str) -> Axis:
        """Make two axes of one extent share their labels, place by place; return them.

        Where one has none, the other's channels have to stay, because of `why`.
        """
        if a is None or b is None:
            self.keep(a, why)
            self.keep(b, why)
            return None
        for left, right in zip(a.tolist(), b.tolist(), strict=True):
            self._join_one(left, right)
        return a

    def _join_one(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        self._parents[b] = a
        if b in self._reasons:
            self._reasons.setdefault(a, self._reasons.pop(b))

    def keep(self, axis: Axis, why: str) -> None:
        """Channels that have to stay, and why."""
        for label in () if axis is None else axis.tolist():
            self._reasons.setdefault(self.find(label), why)

    def keep_all(self, labels: Sequence[Axis], why: str) -> None:
        """The same of all axes of a value."""
        for axis in labels:
            self.keep(axis, why)

    def reason(self, label: int) -> str | None:
        """Why a channel has to stay; None where it need not."""
        return self._reasons.get(self.find(label))

    def roots(self, axis: np.ndarray) -> np.ndarray:
        """The sets that the labels of an axis are in, int64 [extent]."""
        return np.array([self.find(label) for label in axis.tolist()], np.int64)
