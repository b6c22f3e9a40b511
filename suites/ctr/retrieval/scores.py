"""How well a model finds the items that users chose, over its whole catalogue, beside what any model has to beat.

Letters: N users, I items, H numbers of a vector. A score is the product of a user's vector and an item's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from suites.ctr.retrieval.baselines import BASELINES, Baselines
from suites.ctr.retrieval.ranking import ROWS, figures_of, in_catalogue, places
from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric


class RetrievalScores(ArrayMetric):
    """Figures of the rows that were clicked: `recall@k`, `mrr@k` and `known`.

    These are the share whose item is among the first k of the catalogue, the mean of 1 / its place, 0 beyond k, and the
    share whose item is in the catalogue at all. Equal scores count against the item. With `baselines` there are
    `popularity_recall@k` and its like too, of the same rows.

    Args:
        signs: int64 [I] of the catalogue.
        vectors: float32 [I, H].
        item: column of the item in `sparse`.
        k: see above.
        baselines: of this catalogue; None for none.
    """

    def __init__(
        self, signs: np.ndarray, vectors: np.ndarray, item: int, k: int = 20, baselines: Baselines | None = None
    ) -> None:
        super().__init__()
        order = np.argsort(signs)
        self._signs, self._vectors = signs[order], vectors[order]
        self._item, self._k, self._baselines = item, k, baselines
        self._figures: dict[str, float] = {}  # of all rows so far

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `users` [n, H] with the batch's `sparse` [n, F], `labels` [n, L], and the history for baselines."""
        self._figures = {}
        clicked = batch["labels"][:, 0] > 0.5
        self.gather(users=outputs["users"][clicked], items=batch["sparse"][clicked, self._item])
        if self._baselines is not None:
            values, offsets = (batch[name] for name in (self._baselines.history, f"{self._baselines.history}.offsets"))
            lengths = np.diff(offsets)
            self.gather(seen=values[np.repeat(clicked, lengths)], lengths=lengths[clicked])

    def merge(self, state: Mapping[str, Any]) -> None:
        """See `Metric`."""
        self._figures = {}
        super().merge(state)

    def result(self) -> dict[str, float]:
        """The figures."""
        self._figures = self._figures or self._ranked()
        return dict(self._figures)

    def _ranked(self) -> dict[str, float]:
        users, items = self.gathered("users"), self.gathered("items")
        parts = (slice(i, i + ROWS) for i in range(0, len(users), ROWS))
        at, known = in_catalogue(self._signs, items)
        found = [places(users[part] @ self._vectors.T, at[part], known[part]) for part in parts]
        figures = figures_of(np.concatenate(found or [np.zeros(0)]), self._k)
        if self._baselines is not None:
            figures |= self._baselines.figures(self.gathered("seen"), self.gathered("lengths"), items, self._k)
        return figures

    def report(self) -> str:
        """The figures beside those of the baselines, and whether the model is worth its training."""
        if self._baselines is None:
            return ""
        found, names = self.result(), (f"recall@{self._k}", f"mrr@{self._k}")
        rows = [("this model", ""), *((what, f"{name}_") for name, what in BASELINES.items())]
        lines = [f"| | {' | '.join(names)} |", "|---|---|---|"]
        lines += [
            f"| {what} | {' | '.join(f'{found[before + name]:.4f}' for name in names)} |" for what, before in rows
        ]
        recall, least = found[names[0]], found[f"popularity_{names[0]}"]
        if recall <= least:
            lines.append(
                f"\nThe model is no better than the most popular items for everybody: {recall:.4f} to {least:.4f}."
            )
        return "\n".join(lines)
