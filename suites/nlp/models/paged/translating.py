"""PagedPairs: a Transformer whose target's keys and values lie in pages, and its sources' beside them.

Copying looks at sources by keys and values of its own, which lie there as those of one more layer.

A source is read once, alone, so that what is kept of it has the same bits whoever else writes. Its keys and values in
each layer's attention to the source are as wide as those of the target's words, so both take pages of one cache.

Letters: S source words, T new words, B texts, P pages of a text, Q pages of a source, R words whose next is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework import nn, no_grad, ops, program
from framework.tensors import Tensor
from suites.nlp.models.paged.cache import PageCache, Places, RowProducts, layers_of
from suites.nlp.models.paged.copying import CopiedWords, ToSources
from suites.nlp.models.transformer import Transformer
from suites.nlp.models.writing import WritingModel, told


class PagedPairs(ToSources):
    """The steps of a `Transformer` with a cache of pages.

    Args:
        model: it; see `fits`.
        pages: of the cache.
        page: words of one.
        int8: weights of the decoder's products in 8 bits, with a scale for each 64 columns.
    """

    _cache: PageCache

    def __init__(self, model: Transformer, *, pages: int, page: int = 16, int8: bool = False) -> None:
        model.eval()
        self._model = model
        self._layers: list[nn.TransformerDecoderLayer] = list(model.decoder)  # type: ignore[arg-type]
        self._cache = PageCache(len(self._layers) + model.copies, model.width, pages=pages, page=page)
        self._copied = CopiedWords(self._cache, model.copying, model.target_words) if model.copies else None
        matrices = [each.weight for each in layers_of(model.decoder)]
        matrices += [model.copy_query.weight] if model.copies else []
        self._products = RowProducts([*matrices, model.target.words.weight] if int8 else ())
        self._run, self._read = program(self._step), program(self._source)

    @staticmethod
    def fits(model: WritingModel) -> bool:
        """Whether its steps are computed here."""
        return isinstance(model, Transformer)

    @staticmethod
    def bytes_of_page(model: Transformer, page: int = 16) -> int:
        """What a page of the cache takes."""
        return 4 * page * model.memory_width  # which is that of a written word, and what copying takes

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities [R, V] of the words behind `rows`, and totals [R], which make them logits again.

        Args:
            arrays: as `PagedSteps` takes them; source_tables int64 [B, Q] and source_lengths int64 [B], of what each
                text is written to.
        """
        with no_grad():
            found = self._run(self._looks(arrays))
        return found["scores"].numpy(), found["totals"].numpy()

    def _source(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        ids, offsets = arrays["source"], arrays["offsets"]
        slots, places = self._cache.slots(Places(offsets, arrays["tables"], arrays["lengths"]), ids)
        memory = self._model.encode(ids, offsets).memory
        for i, layer in enumerate(self._layers):
            self._cache.write(i, slots, *layer.cross.keys_and_values(memory))
        if self._copied is not None:
            self._cache.write(len(self._layers), slots, self._model.copy_key(memory), memory)
        return {"places": places}

    def _step(self, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
        model, cache, product = self._model, self._cache, self._products.layer
        texts = Places(arrays["offsets"], arrays["tables"], arrays["lengths"])
        sources = Places(arrays["look_offsets"], arrays["look_tables"], arrays["look_lengths"])
        # All data is checked before the first write, so that states are written in place.
        asked = ops.gather(arrays["ids"], arrays["rows"])
        slots, places = cache.slots(texts, arrays["ids"])
        _, looked = cache.slots(sources, arrays["ids"])
        known = {} if self._copied is None else self._copied.checked(arrays)
        x = given = model.target(arrays["ids"], places)
        for i, layer in enumerate(self._layers):
            own, cross = layer.attention, layer.cross

            def attend(h: Tensor, i: int = i, own: nn.MultiHeadAttention = own) -> Tensor:
                q, k, v = ops.split(product(own.qkv, h), axis=1, sizes=[own.inner] * 3)
                cache.write(i, slots, k, v)
                how = {"heads": own.heads, "scale": own.scale}
                return product(own.out, cache.attend(i, q, texts, **how, near=own.relative))

            def look(h: Tensor, i: int = i, cross: nn.CrossAttention = cross) -> Tensor:
                found = cache.attend(i, product(cross.q, h), sources, heads=cross.heads, scale=cross.scale)
                return product(cross.out, found)

            x = layer.around(x, attend, look, product)
        x = ops.gather(x, arrays["rows"])
        x = x if model.decoder_norm is None else model.decoder_norm(x)
        logits = self._products.rows(x, model.target.words.weight)
        if self._copied is not None:
            logits = self._with_copies(logits, x, ops.gather(given, arrays["rows"]), arrays)
        return told(logits) | {"asked": asked, "looked": looked} | known

    def _with_copies(self, logits: Tensor, x: Tensor, given: Tensor, arrays: Mapping[str, Tensor]) -> Tensor:
        """Log-probabilities [R, V] of logits [R, V] and of states x that were `given`, [R, D] each."""
        model, product, layer = self._model, self._products.layer, len(self._layers)
        assert self._copied is not None
        sources = Places(arrays["ask_offsets"], arrays["ask_tables"], arrays["ask_lengths"])
        q, scale = product(model.copy_query, x), model.width**-0.5
        looked = self._cache.attend(layer, q, sources, heads=1, scale=scale)
        keys = self._cache.keys[layer]
        return self._copied.told(logits, (looked, x, given), q, keys, arrays, scale, product)
