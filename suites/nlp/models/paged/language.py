"""PagedSteps: a language model whose keys and values lie in pages, for a generation engine.

Letters: T new words, B texts, P pages of a text, R words whose next is asked for, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from framework import no_grad, ops, program
from framework.tensors import Tensor
from suites.nlp.models.language_model import LanguageLayer, LanguageModel
from suites.nlp.models.paged.cache import PageCache, Places, RowProducts, layers_of
from suites.nlp.models.writing import WritingModel, told


class PagedSteps:
    """The steps of a model with a cache of pages.

    Args:
        model: it; its weights are read as they are at each step, or once where they are kept in 8 bits.
        pages: of the cache.
        page: words of one.
        int8: weights of products in 8 bits, with a scale for each 64 columns; the word vectors stay as they are where
            they are no output matrix too.
    """

    def __init__(self, model: LanguageModel, *, pages: int, page: int = 16, int8: bool = False) -> None:
        model.eval()
        self._model = model
        layers: list[LanguageLayer] = list(model.layers)  # type: ignore[arg-type]
        self._layers = layers
        self._cache = PageCache(len(layers), layers[0].kv_heads * layers[0].head_size, pages=pages, page=page)
        matrices = [each.weight for each in layers_of(model)]
        if model.head is None:
            matrices.append(model.words.weight)
        self._products = RowProducts(matrices if int8 else ())
        self._run = program(self._step)

    @staticmethod
    def fits(model: WritingModel) -> bool:
        """Whether its steps are computed here."""
        return isinstance(model, LanguageModel)

    @staticmethod
    def bytes_of_page(model: LanguageModel, page: int = 16) -> int:
        """What a page of the cache takes."""
        return 4 * page * model.past_width

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        self._cache.copy(pages, to)

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities [R, V] of the words behind `rows`, and totals [R], which make them logits again.

        Args:
            arrays: ids int64 [T], offsets int64 [B + 1], tables int64 [B, P], lengths int64 [B] as of
                `ops.paged_attention`, rows int64 [R].
        """
        with no_grad():
            found = self._run(dict(arrays))
        return found["scores"].numpy(), found["totals"].numpy()

    def _step(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        cache, product = self._cache, self._products.layer
        texts = Places(arrays["offsets"], arrays["tables"], arrays["lengths"])
        # All data is checked before the first write, so that states are written in place.
        asked = ops.gather(arrays["ids"], arrays["rows"])
        slots, places = cache.slots(texts, arrays["ids"])
        x, about = self._model.embedded(arrays["ids"], places)
        for i, layer in enumerate(self._layers):

            def attend(q: Tensor, k: Tensor, v: Tensor, i: int = i, layer: LanguageLayer = layer) -> Tensor:
                cache.write(i, slots, k, v)
                scale = layer.head_size**-0.5
                return cache.attend(i, q, texts, heads=layer.heads, scale=scale, window=layer.window)

            x = layer(x, about, attend, product)
        x = self._model.norm(ops.gather(x, arrays["rows"]))
        head = self._model.head
        y = self._products.rows(x, self._model.words.weight) if head is None else product(head, x)
        return told(y) | {"asked": asked}
