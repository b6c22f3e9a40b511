"""PagedEnsemble: models that write as one, each with pages of its own under the same numbers.

Letters: R words whose next is asked for, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from suites.nlp.models.ensemble import Ensemble


class PagedEnsemble:
    """The steps of an `Ensemble` with a cache of pages.

    Args:
        model: it.
        kinds: what computes the steps of each member.
        pages: of the cache.
        page: words of one.
        int8: as the members' kinds have it.
    """

    def __init__(
        self, model: Ensemble, kinds: Sequence[Callable[..., Any]], *, pages: int, page: int = 16, int8: bool = False
    ) -> None:
        model.eval()
        self._words = model.words
        self._members = [
            kind(member, pages=pages, page=page, int8=int8) for kind, member in zip(kinds, model.members, strict=True)
        ]

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Write what the members make of a source to pages."""
        for member in self._members:
            member.read(source, pages)

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        for member in self._members:
            member.copy(pages, to)

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities [R, V] of the mean of the members' logits, and totals [R], which make them logits again."""
        found = [member(arrays) for member in self._members]
        logits = sum((scores + totals[:, None])[:, : self._words] for scores, totals in found) / np.float32(len(found))
        most = logits.max(axis=1, keepdims=True)
        totals = most + np.log(np.exp(logits - most).sum(axis=1, keepdims=True))
        return logits - totals, totals[:, 0]
