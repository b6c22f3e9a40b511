"""What a retrieval model has to beat: the most popular items, and those that stood together with the history's.

Letters: N users, I items, S sessions, T values of histories laid end to end.
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.ctr.datasets.clicks import Clicks
from suites.ctr.retrieval.ranking import ROWS, figures_of, in_catalogue, places

BASELINES = MappingProxyType(
    {"popularity": "popularity: the same items for everybody", "item_knn": "item-kNN: items seen together"}
)
_NEIGHBOURS = 100  # of an item, as in the authors' code of GRU4Rec
_SHRINKAGE = 20.0  # sessions that are added to an item's own, against chance among rare ones; as there
_BLOCK = 512  # items whose neighbours are looked for together


class Baselines:
    """Popularity and item-kNN of the clicked rows of a training log.

    The score of an item by popularity is its number of clicked rows. By item-kNN it is the sum of its similarities
    with the items of the history (Sarwar et al. 2001). The similarity of two items is the cosine over sessions,
    c_ij / sqrt((c_i + 20) (c_j + 20)), for the 100 nearest of an item (Hidasi et al. 2016, section 4). A session is
    what one group, such as a user, clicked or has in its histories; without a group, a row's item and its history.

    Args:
        signs: int64 [I] of the catalogue, in any order.
        clicks: the training log.
        item: column of the item in `sparse`.
        history: name of the sequence.

    Attributes:
        history: see above.
    """

    def __init__(self, signs: np.ndarray, clicks: Clicks, item: int, history: str) -> None:
        if clicks.labels is None:
            raise DataError("Baselines: the training log has no labels; it needs clicked rows")
        self._signs, self.history = np.sort(signs), history
        rows = clicks.take(np.flatnonzero(clicks.labels[:, 0] > 0.5))
        at, known = in_catalogue(self._signs, rows.sparse[:, item])
        self._popularity = np.bincount(at[known], minlength=len(signs)).astype(np.float32)
        self._similar = _similarities(self._sessions(rows, at, known))
        self._found: dict[bytes, dict[str, float]] = {}  # an evaluation set is ranked once in a run

    def _sessions(self, rows: Clicks, at: np.ndarray, known: np.ndarray) -> Any:
        """Whether a session has an item, sparse float32 [S, I]."""
        values, offsets = rows.ragged[self.history]
        seen, there = in_catalogue(self._signs, values)
        number = np.arange(len(rows)) if rows.group is None else np.unique(rows.group, return_inverse=True)[1].ravel()
        owners = np.repeat(number, np.diff(offsets))
        found = _sparse(
            np.concatenate([number[known], owners[there]]), np.concatenate([at[known], seen[there]]), len(self._signs)
        )
        found.data[:] = 1.0  # however often
        return found

    def figures(self, seen: np.ndarray, lengths: np.ndarray, items: np.ndarray, k: int) -> dict[str, float]:
        """`popularity_recall@k`, `popularity_mrr@k`, and the same of `item_knn`.

        Args:
            seen: int64 [T], signs of the users' histories.
            lengths: int64 [N], of them.
            items: int64 [N], sign of the item that each user chose.
            k: first items that count.
        """
        key = b"".join(part.tobytes() for part in (seen, lengths, items, np.array(k)))
        digest = hashlib.sha256(key).digest()
        if digest not in self._found:
            self._found[digest] = self._ranked(seen, lengths, items, k)
        return self._found[digest]

    def _ranked(self, seen: np.ndarray, lengths: np.ndarray, items: np.ndarray, k: int) -> dict[str, float]:
        at, known = in_catalogue(self._signs, items)
        places_seen, there = in_catalogue(self._signs, seen)
        owners = np.repeat(np.arange(len(items)), lengths)
        histories = _sparse(owners[there], places_seen[there], len(self._signs), len(items))
        histories.data[:] = 1.0
        found: dict[str, list[np.ndarray]] = {name: [] for name in BASELINES}
        for start in range(0, len(items), ROWS):
            part = slice(start, start + ROWS)
            scores = (
                np.broadcast_to(self._popularity, (len(at[part]), len(self._signs))),
                (histories[part] @ self._similar).toarray(),
            )
            for name, each in zip(BASELINES, scores, strict=True):
                found[name].append(places(each, at[part], known[part]))
        every = {name: figures_of(np.concatenate(parts or [np.zeros(0)]), k) for name, parts in found.items()}
        return {f"{name}_{key}": value for name, own in every.items() for key, value in own.items() if key != "known"}


def _sparse(rows: np.ndarray, columns: np.ndarray, width: int, height: int | None = None) -> Any:
    """How often each pair occurs, sparse float32 [height, width]."""
    from scipy.sparse import csr_array

    shape = (int(rows.max(initial=-1)) + 1 if height is None else height, width)
    found = csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    found.sum_duplicates()
    return found


def _similarities(sessions: Any) -> Any:
    """Similarities of each item [row] to its nearest, sparse float32 [I, I], of sessions [S, I]."""
    from scipy.sparse import csr_array, vstack

    count = sessions.shape[1]
    norm = np.sqrt(np.asarray(sessions.sum(axis=0)).ravel() + _SHRINKAGE)
    by_item, blocks = sessions.T.tocsr(), []
    for start in range(0, count, _BLOCK):
        block = (by_item[start : start + _BLOCK] @ sessions).tocoo()
        rows, columns = block.coords
        cosine = block.data / (norm[rows + start] * norm[columns])
        order = np.lexsort((columns, -cosine, rows))
        order = order[columns[order] != rows[order] + start]
        rank = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
        kept = order[rank < _NEIGHBOURS]
        blocks.append(csr_array((cosine[kept], (rows[kept], columns[kept])), shape=block.shape))
    return vstack(blocks, format="csr", dtype=np.float32)
