"""CopiedWords: which words of its source, in pages, a text may copy (See et al. 2017); ToSources: who reads sources.

Letters: S source words, R words whose next is asked for, P pages of a source, D width, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import framework
from framework import no_grad, ops
from framework.tensors import Tensor
from suites.nlp.models.copying import Copying
from suites.nlp.models.paged.cache import Pages, Places, Product, looks, source_arrays


class CopiedWords:
    """The numbers of sources' words, one for each word of a cache of pages, and the writing that copies them.

    Args:
        cache: whose pages hold the sources.
        copying: of the model.
        words: V.
    """

    def __init__(self, cache: Pages, copying: Copying, words: int) -> None:
        self._cache, self._copying = cache, copying
        self._words = np.zeros(cache.states[0].shape[0], np.int64)  # on the host, which they came from
        self._nothing = framework.tensor(np.zeros(words, np.float32))

    def write(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Keep the words of a source.  source: S words; pages: those that hold them."""
        self._words[self._rows(np.asarray(pages, np.int64))[: len(source)]] = source

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        rows, others = (self._rows(np.asarray(each, np.int64)) for each in (pages, to))
        self._words[others] = self._words[rows]

    def arrays(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of `looks`, and `ask_*` of the words whose next is asked for: their sources and these' words."""
        found = looks(given)
        rows = found["rows"]
        tables = found["look_tables"][rows]
        return {
            **found,
            "ask_tables": tables,
            "ask_lengths": found["look_lengths"][rows],
            "ask_offsets": np.arange(len(rows) + 1),
            "ask_words": self._words[self._rows(tables).reshape(len(rows), -1)],
        }

    def checked(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a step looks at before its first write, so that states are written in place; outputs of the step."""
        places = Places(arrays["ask_offsets"], arrays["ask_tables"], arrays["ask_lengths"])
        _, spots = self._cache.slots(places, arrays["rows"])
        return {"copied_spots": spots, "copied_words": ops.gather(self._nothing, arrays["ask_words"])}

    def told(
        self,
        logits: Tensor,
        about: tuple[Tensor, Tensor, Tensor],
        q: Tensor,
        keys: Tensor,
        arrays: Mapping[str, Tensor],
        scale: float,
        product: Product,
    ) -> Tensor:
        """Log-probabilities [R, V], which are logits as well.

        Args:
            logits: [R, V].
            about: see `Copying`, of the same rows.
            q: queries [R, D] of what is copied.
            keys: of the cache, a row a word [rows, D].
            arrays: of the step, those of `arrays` among them.
            scale: of the products of queries and keys.
            product: computes the gate.
        """
        places = (arrays["ask_offsets"], arrays["ask_tables"], arrays["ask_lengths"])
        weights = ops.paged_weights(q, keys, *places, page=self._cache.page, scale=scale)
        return self._copying.mixed(logits, about, weights, arrays["ask_words"], product)

    def _rows(self, pages: np.ndarray) -> np.ndarray:
        """Rows of the words of pages, in order, int64 [words]."""
        return (pages[..., None] * self._cache.page + np.arange(self._cache.page)).reshape(-1)


class ToSources:
    """A model that writes to sources, which are read into pages, with their words where these may be copied."""

    _cache: Pages
    _copied: CopiedWords | None
    _read: Callable[[dict[str, np.ndarray]], Any]

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Write what the model makes of a source to pages.  source: S words; pages: Q of them that hold S."""
        with no_grad():
            self._read(source_arrays(source, pages))
        if self._copied is not None:
            self._copied.write(source, pages)

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        self._cache.copy(pages, to)
        if self._copied is not None:
            self._copied.copy(pages, to)

    def _looks(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return looks(arrays) if self._copied is None else self._copied.arrays(arrays)
