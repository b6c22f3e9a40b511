"""PagedSteps: a language model whose keys and values lie in pages, for a generation engine.

Every product and every attention of a step sums in an order that neither the batch nor the pages change: what a text
gets has the same bits whoever shares the step.

Letters: T new words, B texts, P pages of a text, R words whose next is asked for, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import framework
from framework import nn, no_grad, ops, program
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.nlp.models.language_model import LanguageLayer, LanguageModel
from suites.nlp.models.writing import told

_GROUP = 64  # columns of 8-bit weights with one scale


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
        self._model, self._page = model, page
        self.vocabulary = model.vocab_size
        layers: list[LanguageLayer] = list(model.layers)  # type: ignore[arg-type]
        self._layers = layers
        rows, width = pages * page, layers[0].kv_heads * layers[0].head_size
        self._keys = [_state(rows, width) for _ in layers]
        self._values = [_state(rows, width) for _ in layers]
        self._small: dict[int, tuple[Tensor, Tensor]] = {}
        if int8:
            matrices = [each.weight for each in layers_of(model)] + ([model.words.weight] if model.head is None else [])
            self._small = {id(weight): in_8_bits(weight.numpy()) for weight in matrices}
        self._run = program(self._step)

    @staticmethod
    def bytes_of_page(model: LanguageModel, page: int = 16) -> int:
        """What a page of the cache takes."""
        return 4 * page * model.past_width

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
        offsets, tables, lengths = arrays["offsets"], arrays["tables"], arrays["lengths"]
        # All data is checked before the first write, so that states are written in place.
        asked = ops.gather(arrays["ids"], arrays["rows"])
        slots, places = ops.page_rows(offsets, tables, lengths, arrays["ids"], self._keys[0], page=self._page)
        x, about = self._model.embedded(arrays["ids"], places)
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):

            def attend(
                q: Tensor,
                k: Tensor,
                v: Tensor,
                keys: Tensor = keys,
                values: Tensor = values,
                layer: LanguageLayer = layer,
            ) -> Tensor:
                keys.set(ops.scatter(keys, slots, k))
                values.set(ops.scatter(values, slots, v))
                return ops.paged_attention(
                    q, keys, values, offsets, tables, lengths,
                    heads=layer.heads, page=self._page, scale=layer.head_size**-0.5, window=layer.window,
                )  # fmt: skip

            x = layer(x, about, attend, self._product)
        x = self._model.norm(ops.gather(x, arrays["rows"]))
        head = self._model.head
        y = self._rows(x, self._model.words.weight, None) if head is None else self._product(head, x)
        return told(y) | {"asked": asked}

    def _product(self, layer: nn.Linear, x: Tensor) -> Tensor:
        return self._rows(x, layer.weight, layer.bias)

    def _rows(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if (small := self._small.get(id(weight))) is not None:
            return ops.linear_by_rows(x, small[0], bias, small[1])
        return ops.linear_by_rows(x, weight, bias)


def layers_of(model: nn.Layer) -> list[nn.Linear]:
    """All linear layers; AttributeValueError for one of another kind, whose product would not be its weights' alone."""
    found = [layer for _, layer in model.named_layers() if isinstance(layer, nn.Linear)]
    strange = [type(layer).__name__ for layer in found if type(layer) is not nn.Linear]
    if strange:
        raise AttributeValueError(f"PagedSteps: {strange[0]} is no plain linear layer; merge its weights first")
    return found


def in_8_bits(weight: np.ndarray, group: int = _GROUP) -> tuple[Tensor, Tensor]:
    """int8 [K, C] and scales float32 [K, G] of a weight [K, C]: of each group of columns the largest becomes 127.

    Columns that groups do not divide are one group a row.
    """
    rows, columns = weight.shape
    groups = columns // group if columns % group == 0 else 1
    parts = weight.reshape(rows, groups, -1)
    scale = np.maximum(np.abs(parts).max(axis=2), 1e-30) / 127
    rounded = np.rint(parts / scale[..., None]).astype(np.int8).reshape(rows, columns)
    return framework.tensor(rounded), framework.tensor(scale.astype(np.float32))


def _state(rows: int, width: int) -> Tensor:
    state = framework.tensor(np.zeros((rows, width), np.float32))
    state.persistable = True
    return state
