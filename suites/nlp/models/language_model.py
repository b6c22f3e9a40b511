"""LanguageModel: a decoder-only Transformer in GPT-2's and Llama's forms, without padding.

Letters: T words, N texts, K rows that are seen, D width, V words of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

import framework
from framework import nn, ops, random
from framework.errors import AttributeValueError
from framework.nn.activation import activation
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, start_from
from suites.engine.weights.published import read_description
from suites.nlp.models.language_names import described_language_model, names_of_language_model
from suites.nlp.models.outputs import States
from suites.nlp.models.rotary import RotaryScaling, turns
from suites.nlp.models.writing import WritingModel, told

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries, keys and values [T, ...] to what heads give [T, D]
Product = Callable[[nn.Linear, Tensor], Tensor]  # what a linear layer gives for rows [T, D]


def _called(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x)


class LanguageLayer(nn.Layer):
    """Causal attention and a feed-forward part, each behind a norm and with a residual.  x, y: [T, D].

    Args:
        dim: D.
        heads: of queries.
        kv_heads: of keys and values, each of which several of queries share (Ainslie et al. 2023).
        head_size: width of a head.
        hidden: width inside the feed-forward part.
        norm: makes a norm.
        gated: SwiGLU (Shazeer 2020), else GELU by tanh.
        biases: of all linear layers.
        qkv_biases: of queries, keys and values.
        dropout: of what the parts give, and of attention weights.
        window: words that each sees, itself among them; 0 for all.
        std: of the weights at the start; those before a residual start smaller, as `out_std`.
        out_std: see `std`.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int,
        head_size: int,
        hidden: int,
        norm: Callable[[], nn.Layer],
        gated: bool,
        biases: bool,
        qkv_biases: bool,
        dropout: float,
        window: int,
        std: float,
        out_std: float,
    ) -> None:
        super().__init__()
        wide, narrow = nn.init.Normal(std), nn.init.Normal(out_std)
        self.heads, self.kv_heads, self.head_size, self.window = heads, kv_heads, head_size, window
        self.sizes = [heads * head_size, kv_heads * head_size, kv_heads * head_size]
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = nn.Linear(dim, sum(self.sizes), qkv_biases, wide)
        self.qkv.blocks = tuple(self.sizes) if gated else 1  # GPT-2's files have one matrix
        self.out = nn.Linear(heads * head_size, dim, biases, narrow)
        self.gate = nn.Linear(dim, hidden, biases, wide) if gated else None
        self.up = nn.Linear(dim, hidden, biases, wide)
        self.down = nn.Linear(hidden, dim, biases, narrow)
        self.dropout = nn.Dropout(dropout)
        self._activation = activation("silu" if gated else "gelu_tanh")
        self._repeats = np.repeat(np.arange(kv_heads), heads // kv_heads)

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor] | None, attend: Attend, product: Product = _called
    ) -> Tensor:
        """x, y: [T, D]; turns: cosines and sines [T, head_size / 2] of rotary positions; None for none."""
        q, k, v = ops.split(product(self.qkv, self.norm1(x)), axis=1, sizes=self.sizes)
        if turns is not None:
            q = ops.rotary_embedding(q, *turns, heads=self.heads)
            k = ops.rotary_embedding(k, *turns, heads=self.kv_heads)
        x = x + self.dropout(product(self.out, attend(q, k, v)))
        return x + self.dropout(self._feed(self.norm2(x), product))

    def seen(self, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, key_offsets: Tensor | None) -> Tensor:
        """What the heads give, [T, D], of queries [T, D] and keys and values [K, ...] that they see."""
        p, training = self.dropout.p, self.training
        key = (self.dropout.generator or random.default_generator).key() if p and training else None
        y, _ = ops.ragged_attention(
            q,
            self._spread(k),
            self._spread(v),
            offsets,
            key_offsets,
            key,
            heads=self.heads,
            scale=self.head_size**-0.5,
            causal=True,
            window=self.window,
            p=p if key is not None else 0.0,
        )
        return y

    def _spread(self, x: Tensor) -> Tensor:
        """Keys or values of each head of queries: [K, heads * size] of [K, kv_heads * size]."""
        if self.kv_heads == self.heads:
            return x
        by_head = ops.reshape(x, shape=(0, self.kv_heads, self.head_size))
        return ops.flatten(ops.gather(by_head, framework.tensor(self._repeats), axis=1), start=1, end=2)

    def _feed(self, x: Tensor, product: Product) -> Tensor:
        if self.gate is None:
            return product(self.down, self._activation(product(self.up, x)))
        return product(self.down, self._activation(product(self.gate, x)) * product(self.up, x))


@register("text_model")
class LanguageModel(WritingModel):
    """The next word of a text, given those before it (Radford et al. 2019; Touvron et al. 2023).

    Args:
        vocab_size: V.
        width: D.
        layers: how many.
        heads: of attention.
        kv_heads: heads of keys and values; they divide `heads`. Null for as many.
        head_size: width of a head; null for width / heads.
        hidden: width inside the feed-forward parts; null for 4 D, or 8/3 D in multiples of 32 with "swiglu".
        max_length: words that there are places for.
        positions: "rotary" (Su et al. 2021), or a "learned" vector of each place.
        norm: "rms" (Zhang and Sennrich 2019) or "layer".
        feed: "swiglu" or "gelu".
        biases: of linear layers.
        qkv_biases: of queries, keys and values; null for as the other linear layers.
        tied: the word vectors are the output matrix too (Press and Wolf 2017).
        dropout: of word vectors, of what parts give and of attention weights.
        theta: base of the rotary positions' rates.
        scaling: of these rates, for texts longer than the model was first trained on.
        window: words that each sees, itself among them (sliding windows; Jiang et al. 2023, arXiv:2310.06825); null for
            all.
        window_from: number of the first layer that has the window.
        eps: of the norms.
        weights: published weights that it starts from, such as `hf:OWNER/NAME`; null for none.
    """

    schemes = ("hf",)

    def __init__(
        self,
        vocab_size: int,
        width: int = 256,
        layers: int = 4,
        heads: int = 4,
        kv_heads: int | None = None,
        head_size: int | None = None,
        hidden: int | None = None,
        max_length: int = 256,
        positions: Literal["rotary", "learned"] = "rotary",
        norm: Literal["rms", "layer"] = "rms",
        feed: Literal["swiglu", "gelu"] = "swiglu",
        biases: bool = False,
        qkv_biases: bool | None = None,
        tied: bool = True,
        dropout: float = 0.0,
        theta: float = 10000.0,
        scaling: RotaryScaling | None = None,
        window: int | None = None,
        window_from: int = 0,
        eps: float = 1e-5,
        weights: str | None = None,
    ) -> None:
        super().__init__()
        kv_heads, gated = heads if kv_heads is None else kv_heads, feed == "swiglu"
        if min(vocab_size, width, layers, heads, kv_heads, max_length) < 1 or heads % kv_heads:
            raise AttributeValueError(
                f"LanguageModel: vocab_size is {vocab_size}, width {width}, layers {layers}, heads {heads}, kv_heads "
                f"{kv_heads}, max_length {max_length}; all must be above 0, and kv_heads divide heads"
            )
        if min(1 if each is None else each for each in (hidden, head_size)) < 1 or not 1 < theta < math.inf:
            raise AttributeValueError(
                f"LanguageModel: hidden is {hidden}, head_size {head_size} and theta {theta}; the first two must be at "
                "least 1, or null, and theta finite and above 1"
            )
        if head_size is None and width % heads:
            raise AttributeValueError(f"LanguageModel: {heads} heads do not divide a width of {width}")
        if (window is not None and window < 1) or window_from < 0:
            raise AttributeValueError(
                f"LanguageModel: window is {window} and window_from {window_from}; a window has 1 word or more, and "
                "layers are counted from 0"
            )
        if scaling is not None and positions != "rotary":
            raise AttributeValueError("LanguageModel: scaling is of rotary positions, and these are learned")
        size = width // heads if head_size is None else head_size
        if positions == "rotary" and size % 2:
            raise AttributeValueError(f"LanguageModel: a head of {size} has no pairs to turn; its width must be even")
        if hidden is None:
            hidden = -(-8 * width // 3 // 32) * 32 if gated else 4 * width
        self.vocab_size, self.max_length, self.width = vocab_size, max_length, width
        self.past_width, self._part = 2 * layers * kv_heads * size, kv_heads * size
        self.gpt2 = positions == "learned"  # whose names its files have
        self.words = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(0.02))
        self.places = nn.Embedding(max_length, width, initializer=nn.init.Normal(0.02)) if self.gpt2 else None
        self._turns = None if self.gpt2 else turns(theta, size, max_length, scaling)
        make = (lambda: nn.RMSNorm(width, eps)) if norm == "rms" else (lambda: nn.LayerNorm(width, eps))
        self.layers = nn.LayerList(
            LanguageLayer(
                width, heads, kv_heads, size, hidden, make, gated, biases, biases if qkv_biases is None else qkv_biases,
                dropout, window if window and i >= window_from else 0, 0.02, 0.02 / math.sqrt(2 * layers),
            )
            for i in range(layers)
        )  # fmt: skip
        self.norm = make()
        self.head = None if tied else nn.Linear(width, vocab_size, False, nn.init.Normal(0.02))
        self.dropout = nn.Dropout(dropout)
        start_from(self, weights)

    def names_in(self, scheme: str) -> Names:
        """Hugging Face's names, GPT-2's with learned positions and else Llama's."""
        return names_of_language_model(self.state_dict(), len(self.layers))

    def current_name(self, name: str) -> str:
        """What a file's name is in a whole model: GPT-2's first files lack what stands before."""
        whole = not self.gpt2 or name.startswith(("transformer.", "lm_head."))
        return name if whole else f"transformer.{name}"

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Logits [T, V] of the word after each.  ids: int64 [T]; offsets: integer [B + 1]."""
        return self._logits(self._last(ids, offsets))

    def states(self, ids: Tensor, offsets: Tensor, logits: bool = True) -> States:
        """See `WritingModel.states`."""
        last = self._last(ids, offsets)
        head = self.head
        weight, bias = (self.words.weight, None) if head is None else (head.weight, head.bias)
        return States(self.norm(last), weight, bias, self._logits(last) if logits else None)

    def _last(self, ids: Tensor, offsets: Tensor) -> Tensor:
        x, about = self.embedded(ids, ops.ragged_positions(offsets, ids))
        for layer in self.layers:
            x = layer(x, about, lambda q, k, v, layer=layer: layer.seen(q, k, v, offsets, None))
        return x

    def step(
        self,
        ids: Tensor,
        offsets: Tensor,
        places: Tensor,
        past: Tensor,
        order: Tensor,
        key_offsets: Tensor,
        rows: Tensor,
    ) -> dict[str, Tensor]:
        """See `WritingModel.step`."""
        x, about = self.embedded(ids, places)
        kept = ops.split(past, axis=1, sizes=[self._part] * (2 * len(self.layers)))
        fresh: list[Tensor] = []
        for i, layer in enumerate(self.layers):

            def attend(q: Tensor, k: Tensor, v: Tensor, i: int = i, layer: nn.Layer = layer) -> Tensor:
                before = nn.KeyRows(kept[2 * i], kept[2 * i + 1], order, key_offsets)
                fresh.extend((k, v))
                found: Tensor = layer.seen(q, *before.with_rows(k, v), offsets, key_offsets)  # type: ignore[attr-defined]
                return found

            x = layer(x, about, attend)
        return told(self._logits(ops.gather(x, rows))) | {"fresh": ops.concat(fresh, axis=1)}

    def embedded(self, ids: Tensor, places: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Word vectors [T, D], and cosines and sines of their rotary positions.  ids, places: int64 [T]."""
        x = self.words(ids)
        if self.places is not None:
            x = x + self.places(places)
        about = (
            None if self._turns is None else (ops.gather(self._turns[0], places), ops.gather(self._turns[1], places))
        )
        return self.dropout(x), about

    def _logits(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return ops.matmul(x, self.words.weight, transpose_b=True) if self.head is None else self.head(x)


@register("text_model", "Published")
def published_writer(weights: str) -> WritingModel:
    """The language model that the config.json of published weights describes; a run keeps the description.

    Args:
        weights: their name, such as `hf:OWNER/NAME`, or a checkpoint's folder.

    Raises:
        CheckpointError: they are not here, or of a network that is not known.
    """
    fields, where = read_description(weights)
    return LanguageModel(**described_language_model(fields, where), weights=weights)
