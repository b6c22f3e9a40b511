"""PagedStates and PagedRnn: recurrent models whose states lie in pages, a row a word, for a generation engine.

A page holds the states after its words, as that of a Transformer holds their keys and values: texts with a common
beginning share them, and hypotheses part at any word.

Letters: S source words, T new words, B texts, P pages of a text, Q pages of a source, R words whose next is asked for,
V words of the vocabulary, W numbers of a state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from framework import nn, no_grad, ops, program
from framework.tensors import Tensor
from suites.nlp.models.paged.cache import Pages, Places, RowProducts, layers_of, state_of
from suites.nlp.models.paged.copying import CopiedWords, ToSources
from suites.nlp.models.recurrent_writing import AttentionRnn, RecurrentLanguageModel
from suites.nlp.models.writing import WritingModel, told


class PagedStates:
    """The steps of a `RecurrentLanguageModel` with a cache of pages.

    Args:
        model: it; see `fits`.
        pages: of the cache.
        page: words of one.
        int8: weights of products in 8 bits, with a scale for each 64 columns; those between states stay as they are.
    """

    def __init__(self, model: RecurrentLanguageModel, *, pages: int, page: int = 16, int8: bool = False) -> None:
        model.eval()
        self._model, self._none = model, pages * page
        self._states = state_of((pages + 1) * page, model.past_width)  # the last page is of no words, and stays 0
        self._cache = Pages([self._states], page)
        matrices = _matrices(model) + ([model.words.weight] if model.head is None else [])
        self._products = RowProducts(matrices if int8 else ())
        self._run = program(self._step)
        self.copy = self._cache.copy

    @staticmethod
    def fits(model: WritingModel) -> bool:
        """Whether its steps are computed here: not with `cutoffs` or `tree`."""
        return isinstance(model, RecurrentLanguageModel) and (model.head is None or isinstance(model.head, nn.Linear))

    @staticmethod
    def bytes_of_page(model: RecurrentLanguageModel, page: int = 16) -> int:
        """What a page of the cache takes."""
        return 4 * page * model.past_width

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """As `PagedSteps` has it."""
        first = np.full(len(arrays["lengths"]), self._none)
        with no_grad():
            found = self._run({**arrays, "before": _before(arrays, self._cache.page, first)})
        return found["scores"].numpy(), found["totals"].numpy()

    def _step(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model, products = self._model, self._products
        texts = Places(arrays["offsets"], arrays["tables"], arrays["lengths"])
        # All data is checked before the first write, so that states are written in place.
        asked = ops.gather(arrays["ids"], arrays["rows"])
        slots, places = self._cache.slots(texts, arrays["ids"])
        state = ops.gather(self._states, arrays["before"])
        x, fresh = model.cells.with_states(model.words(arrays["ids"]), texts.offsets, state, products.rows)
        x = ops.gather(x, arrays["rows"])
        x = x if model.narrow is None else products.layer(model.narrow, x)
        head = model.head
        y = products.layer(head, x) if isinstance(head, nn.Linear) else products.rows(x, model.words.weight)
        self._states.set(ops.scatter(self._states, slots, fresh))
        return told(y) | {"places": places, "asked": asked}


class PagedRnn(ToSources):
    """The steps of an `AttentionRnn` with a cache of pages, what is seen of its sources beside its texts' states.

    A source is read once, alone. The state that its texts begin with lies in the first row of its first page.

    Args:
        model: it; see `fits`.
        pages: of the cache.
        page: words of one.
        int8: weights of the decoder's products in 8 bits, as `PagedStates` has it.
    """

    def __init__(self, model: AttentionRnn, *, pages: int, page: int = 16, int8: bool = False) -> None:
        model.eval()
        self._model = model
        self._states, self._memory = (state_of(pages * page, width) for width in (model.past_width, model.hidden))
        self._cache = Pages([self._states, self._memory], page)
        self._copied = CopiedWords(self._cache, model.copying, model.target.rows) if model.copies else None
        self._products = RowProducts([*_matrices(model), model.target.weight] if int8 else ())
        self._run, self._read = program(self._step), program(self._source)

    @staticmethod
    def fits(model: WritingModel) -> bool:
        """Whether its steps are computed here."""
        return isinstance(model, AttentionRnn)

    @staticmethod
    def bytes_of_page(model: AttentionRnn, page: int = 16) -> int:
        """What a page of the cache takes."""
        return 4 * page * model.memory_width  # what is seen of a word, a state, and its number where it may be copied

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """As `PagedPairs` has it."""
        page = self._cache.page
        before = _before(arrays, page, arrays["source_tables"][:, 0] * page)
        with no_grad():
            found = self._run({**self._looks(arrays), "before": before})
        return found["scores"].numpy(), found["totals"].numpy()

    def _source(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        ids, offsets = arrays["source"], arrays["offsets"]
        slots, places = self._cache.slots(Places(offsets, arrays["tables"], arrays["lengths"]), ids)
        spot = slots[:1]
        before = ops.gather(self._states, spot)  # checked before the first write, as in a step
        seen, first = self._model.encoded(ids, offsets)
        self._memory.set(ops.scatter(self._memory, slots, seen))
        self._states.set(ops.scatter(self._states, spot, first))
        return {"places": places, "before": before}

    def _step(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model, products = self._model, self._products
        texts = Places(arrays["offsets"], arrays["tables"], arrays["lengths"])
        # All data is checked before the first write, so that states are written in place.
        asked = ops.gather(arrays["ids"], arrays["rows"])
        slots, places = self._cache.slots(texts, arrays["ids"])
        sources = Places(arrays["look_offsets"], arrays["look_tables"], arrays["look_lengths"])
        _, looked = self._cache.slots(sources, arrays["ids"])
        state = ops.gather(self._states, arrays["before"])
        known = {} if self._copied is None else self._copied.checked(arrays)
        given = model.target(arrays["ids"])
        x, fresh = model.cells.with_states(given, texts.offsets, state, products.rows)
        scale, q = 1 / math.sqrt(model.hidden), products.layer(model.query, x)
        found = ops.paged_attention(
            q, self._memory, self._memory, sources.offsets, sources.tables, sources.lengths,
            heads=1, page=self._cache.page, scale=scale, window=0,
        )  # fmt: skip
        q, found, x, given = (ops.gather(each, arrays["rows"]) for each in (q, found, x, given))
        y = products.rows(ops.tanh(products.layer(model.joint, ops.concat([found, x], axis=1))), model.target.weight)
        if self._copied is not None:
            y = self._copied.told(y, (found, x, given), q, self._memory, arrays, scale, products.layer)
        self._states.set(ops.scatter(self._states, slots, fresh))
        return told(y) | {"places": places, "asked": asked, "looked": looked} | known


def _matrices(model: RecurrentLanguageModel | AttentionRnn) -> list[Tensor]:
    """The matrices of a model's linear layers, and those of its cells' inputs."""
    cells: list[Any] = list(model.cells.layers)
    return [*(each.weight for each in layers_of(model)), *(cell.weight_x for cell in cells)]


def _before(arrays: Mapping[str, np.ndarray], page: int, first: np.ndarray) -> np.ndarray:
    """The row of the state before the new words of each text, int64 [B].  first: where there is no word before."""
    place = arrays["lengths"] - np.diff(arrays["offsets"]) - 1
    at = np.maximum(place, 0)
    rows = arrays["tables"][np.arange(len(at)), at // page] * page + at % page
    return np.where(place < 0, first, rows)
