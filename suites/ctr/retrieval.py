"""Which items of a catalogue fit a user: exact figures for evaluation, and an index of nearest neighbours for serving.

Letters: N users, I items, H numbers of a vector. A score is the product of a user's vector and an item's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import atomic_folder
from framework.errors import AttributeValueError, CheckpointError, NotSupportedError
from framework.extras import install_command
from suites.engine.gathering import ArrayMetric
from suites.engine.task import Batch

_ROWS = 1024  # users that are ranked together

_INDEX, _ITEMS = "items.faiss", "items.json"


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise NotSupportedError(
            f"ItemIndex: it needs the package faiss, which is not installed: {install_command('retrieval')}"
        ) from None
    return faiss


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


class ItemIndex:
    """Finds the items with the largest scores without looking at all of them: an HNSW graph of faiss.

    >>> index = ItemIndex.build(names, vectors)  # doctest: +SKIP
    >>> index.find(users, 20)  # doctest: +SKIP

    The graph is Malkov and Yashunin's (2018), over inner products. Needs the extra `retrieval`.

    Args:
        index: of faiss.
        names: of the items, in its order.
    """

    def __init__(self, index: Any, names: Sequence[str]) -> None:
        self._index, self.names = index, list(names)

    @classmethod
    def build(cls, names: Sequence[str], vectors: np.ndarray, *, links: int = 32, effort: int = 200) -> ItemIndex:
        """The index of a catalogue.

        Args:
            names: of the I items.
            vectors: float32 [I, H].
            links: of each item in the graph.
            effort: candidates looked at while the graph is built; more is better and slower.
        """
        if len(names) != len(vectors) or not len(names):
            raise AttributeValueError(f"ItemIndex: {len(names)} names for {len(vectors)} vectors; needed is one each")
        faiss = _faiss()
        index = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = effort
        index.add(np.ascontiguousarray(vectors, np.float32))
        return cls(index, names)

    def find(self, users: np.ndarray, k: int, *, effort: int = 128) -> list[list[tuple[str, float]]]:
        """(name, score) of the best k items of each user, the best first.

        Args:
            users: float32 [N, H].
            k: how many; fewer where the catalogue is smaller.
            effort: candidates looked at; at least k. More finds more of the true best and takes longer.
        """
        if k < 1:
            raise AttributeValueError(f"ItemIndex: k is {k}; it must be 1 or more")
        self._index.hnsw.efSearch = max(effort, k)
        scores, places = self._index.search(np.ascontiguousarray(users, np.float32), min(k, len(self.names)))
        return [
            [(self.names[at], float(score)) for at, score in zip(row, own, strict=True) if at >= 0]
            for row, own in zip(places.tolist(), scores, strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write the index as a folder, whole or not at all."""
        faiss = _faiss()
        with atomic_folder(folder) as part:
            faiss.write_index(self._index, str(part / _INDEX))
            (part / _ITEMS).write_text(json.dumps(self.names), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> ItemIndex:
        """The index that `save` wrote; CheckpointError where it is damaged or missing."""
        faiss = _faiss()
        try:
            names = json.loads((folder / _ITEMS).read_text(encoding="utf-8"))
            index = faiss.read_index(str(folder / _INDEX))
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{folder}: the index of items cannot be read ({error}); build it again") from None
        if index.ntotal != len(names):
            raise CheckpointError(
                f"{folder}: the index has {index.ntotal} items but {len(names)} names; build it again"
            )
        return cls(index, names)
