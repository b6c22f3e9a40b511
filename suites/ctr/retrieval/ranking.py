"""The place of an item among all items of a catalogue by their scores, and the figures of such places.

Letters: N users, I items.
"""

from __future__ import annotations

import numpy as np

ROWS = 1024  # users that are ranked together


def in_catalogue(signs: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each item [N] in a catalogue of rising signs [I], int64 [N], and whether it is there, bool [N]."""
    at = np.minimum(np.searchsorted(signs, items), len(signs) - 1)
    return at, signs[at] == items


def places(scores: np.ndarray, at: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The rank of each user's item from 1, float64 [N]; infinite where the catalogue does not have it.

    Equal scores count against the item.

    Args:
        scores: [N, I].
        at: int64 [N], of each user's item.
        known: bool [N], whether it is in the catalogue.
    """
    own = scores[np.arange(len(scores)), at]
    return np.where(known, (scores >= own[:, None]).sum(1).astype(np.float64), np.inf)


def figures_of(found: np.ndarray, k: int) -> dict[str, float]:
    """`recall@k`, `mrr@k` and `known` of ranks float64 [N], see `RetrievalScores`."""
    first, count = found <= k, max(len(found), 1)
    return {
        f"recall@{k}": float(first.sum() / count),
        f"mrr@{k}": float((first / found).sum() / count),
        "known": float(np.isfinite(found).sum() / count),
    }
