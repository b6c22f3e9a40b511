"""How well a model finds the items that users chose, over its whole catalogue.

Letters: N users, I items, H numbers of a vector. A score is the product of a user's vector and an item's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric

_ROWS = 1024  # users that are ranked together


class RetrievalScores(ArrayMetric):
    """Figures of the rows that were clicked: `recall@k`, `mrr@k` and `known`.

    These are the share whose item is among the first k of the catalogue, the mean of 1 / its place, 0 beyond k, and the
    share whose item is in the catalogue at all. Equal scores count against the item.

    Args:
        signs: int64 [I] of the catalogue.
        vectors: float32 [I, H].
        item: column of the item in `sparse`.
        k: see above.
    """

    def __init__(self, signs: np.ndarray, vectors: np.ndarray, item: int, k: int = 20) -> None:
        super().__init__()
        self._order = np.argsort(signs)
        self._signs, self._vectors = signs[self._order], vectors[self._order]
        self._item, self._k = item, k

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `users` [n, H] with the batch's `sparse` [n, F] and `labels` [n, L]."""
        clicked = batch["labels"][:, 0] > 0.5
        self.gather(users=outputs["users"][clicked], items=batch["sparse"][clicked, self._item])

    def result(self) -> dict[str, float]:
        """The figures."""
        users, items = self.gathered("users"), self.gathered("items")
        places = np.concatenate(
            [self._places(users[i : i + _ROWS], items[i : i + _ROWS]) for i in range(0, len(users), _ROWS)]
            or [np.zeros(0)]
        )
        found = places <= self._k
        count = max(len(places), 1)
        return {
            f"recall@{self._k}": float(found.sum() / count),
            f"mrr@{self._k}": float((found / places).sum() / count),
            "known": float(np.isfinite(places).sum() / count),
        }

    def _places(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """The place of each user's item from 1, float64 [n]; infinite where the catalogue does not have it."""
        at = np.minimum(np.searchsorted(self._signs, items), len(self._signs) - 1)
        scores = users @ self._vectors.T
        own = scores[np.arange(len(users)), at]
        places = (scores >= own[:, None]).sum(1).astype(np.float64)
        return np.where(self._signs[at] == items, places, np.inf)
