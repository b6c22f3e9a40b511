"""Transformer: a source sequence to a target sequence (Vaswani et al. 2017), without padding on either side.

Letters: S source tokens, T target tokens, B sequences, N hypotheses, V target words, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import framework
from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.copying import Copying, numbered, numbers_of
from suites.nlp.models.writing import Watched, WritingModel, told


@dataclass(frozen=True)
class Encoded:
    """Sources after the encoder: memory [S, D] with offsets, integer [B + 1], and their words, int64 [S]."""

    memory: Tensor
    offsets: Tensor
    words: Tensor


class Embedded(nn.Layer):
    """Word vectors times sqrt(D), plus sines and cosines of the place (Vaswani et al. 2017, section 3.5), dropout.

    Args:
        rows: words.
        dim: D, even.
        max_length: places.
        dropout: of the sum.
        placed: add sines and cosines; not where attention knows distances.
    """

    def __init__(self, rows: int, dim: int, max_length: int, dropout: float, placed: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(rows, dim, initializer=nn.init.Normal(dim**-0.5))
        self.dropout = nn.Dropout(dropout)
        self._scale = math.sqrt(dim)
        self._places = framework.tensor(_sinusoids(max_length, dim)) if placed else None

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """ids, places: int64 [T]; result: [T, D]."""
        x = self.words(ids) * self._scale
        return self.dropout(x if self._places is None else x + ops.gather(self._places, places))


def _sinusoids(length: int, dim: int) -> np.ndarray:
    rates = np.exp(np.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


@register("text_model")
class Transformer(WritingModel):
    """Encoder and decoder; the target's word vectors are the output matrix too (Press and Wolf 2017).

    Args:
        source_words: rows of the source's word vectors.
        target_words: V.
        width: D, even.
        heads: attention heads; they divide D.
        hidden: width inside the feed-forward parts.
        encoder_layers: of the encoder.
        decoder_layers: of the decoder.
        dropout: of embeddings, of what each part gives and of attention weights.
        norm_first: norms before the parts (Xiong et al. 2020), which needs no long warm-up; false is as published.
        shared: one table of word vectors for both sides; source_words and target_words are then equal.
        max_length: tokens of a sequence at most.
        relative: with a number, attention of each side to itself knows how far words are apart, up to so far, in place
            of sines and cosines of places (Shaw et al. 2018; 16 there); null for these.
        copying: a word may be copied from the source (See et al. 2017, section 2.2); both sides then have
            one vocabulary.
        start: target id that decoding begins with.
        stop: target id that ends a sequence.
    """

    def __init__(
        self,
        source_words: int,
        target_words: int,
        width: int = 256,
        heads: int = 4,
        hidden: int = 1024,
        encoder_layers: int = 3,
        decoder_layers: int = 3,
        dropout: float = 0.1,
        norm_first: bool = True,
        shared: bool = False,
        max_length: int = 512,
        relative: int | None = None,
        copying: bool = False,
        start: int = 1,
        stop: int = 2,
    ) -> None:
        super().__init__()
        if width % 2 or min(width, source_words, target_words, encoder_layers, decoder_layers, max_length) < 1:
            raise AttributeValueError(
                f"Transformer: width is {width}, source_words {source_words}, target_words {target_words}, layers "
                f"{encoder_layers} and {decoder_layers}, max_length {max_length}; all must be above 0, and width even"
            )
        if shared and source_words != target_words:
            raise AttributeValueError(
                f"Transformer: shared is on but there are {source_words} source and {target_words} target words"
            )
        if copying and source_words != target_words:
            raise AttributeValueError(
                f"Transformer: copying is on but there are {source_words} source and {target_words} target words; what "
                "is copied must have the same number on both sides"
            )
        if relative is not None and relative < 1:
            raise AttributeValueError(f"Transformer: relative is {relative}; it must be above 0, or null")
        if not (0 <= start < target_words and 0 <= stop < target_words):
            raise AttributeValueError(f"Transformer: start {start} and stop {stop} must lie in [0, {target_words - 1}]")
        self.target_words, self.max_length, self.start, self.stop = target_words, max_length, start, stop
        self.tables, self.shared, self._length = (source_words, target_words), shared, max_length
        self.vocab_size, self.layers, self.width = min(source_words, target_words), decoder_layers, width
        self.past_width = self.memory_width = 2 * decoder_layers * width
        self.copies = copying
        placed = relative is None
        self.target = Embedded(target_words, width, max_length, dropout, placed)
        self.source = self.target if shared else Embedded(source_words, width, max_length, dropout, placed)
        parts: dict[str, Any] = {"activation": "relu", "dropout": dropout, "norm_first": norm_first}
        if relative is not None:
            parts["relative"] = (relative, max_length)
        self.encoder = nn.LayerList(
            nn.TransformerEncoderLayer(width, heads, hidden, **parts) for _ in range(encoder_layers)
        )
        self.decoder = nn.LayerList(
            nn.TransformerDecoderLayer(width, heads, hidden, **parts) for _ in range(decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(width) if norm_first else None
        self.decoder_norm = nn.LayerNorm(width) if norm_first else None
        if copying:
            self.memory_width += 2 * width + 1  # keys of what is copied, what they stand for, and which words
            self.copy_query = nn.Linear(width, width, bias=False)
            self.copy_key = nn.Linear(width, width, bias=False)
            self.copying = Copying(width, width, width, max_length)

    def forward(self, source: Tensor, source_offsets: Tensor, target: Tensor, target_offsets: Tensor) -> Tensor:
        """Logits of the word after each target word, given those before it.

        source: int64 [S]; target: int64 [T], each sequence after `start`; source_offsets, target_offsets: integer
        [B + 1]; result: [T, V].
        """
        return self.decode(self.encode(source, source_offsets), target, target_offsets)

    def loss(
        self,
        source: Tensor,
        source_offsets: Tensor,
        target: Tensor,
        target_offsets: Tensor,
        words: Tensor,
        label_smoothing: float = 0.1,
    ) -> Tensor:
        """Mean cross entropy over all target words, a scalar. words: int64 [T], what follows each of `target`."""
        logits = self.forward(source, source_offsets, target, target_offsets)
        return ops.mean(ops.cross_entropy(logits, words, label_smoothing=label_smoothing))

    def encode(self, source: Tensor, offsets: Tensor) -> Encoded:
        """source: int64 [S]; offsets: integer [B + 1]."""
        x = self.source(source, ops.ragged_positions(offsets, source))
        for layer in self.encoder:
            x = layer(x, offsets)
        return Encoded(x if self.encoder_norm is None else self.encoder_norm(x), offsets, source)

    def decode(self, encoded: Encoded, target: Tensor, offsets: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits [T, V] of target words, int64 [T], with offsets [B + 1]; or of `rows` alone, int64 [M]: [M, V]."""
        x, given = self._decoded(encoded, target, offsets)
        if not self.copies:
            return self._logits(x if rows is None else ops.gather(x, rows))
        about = (self.copy_key(encoded.memory), encoded.memory, encoded.words)
        return self._copied(x, given, offsets, about, encoded.offsets, rows).logits

    def watched(self, source: Tensor, source_offsets: Tensor, target: Tensor, target_offsets: Tensor) -> Watched:
        """See `WritingModel.watched`."""
        if not self.copies:
            return super().watched(source, source_offsets, target, target_offsets)
        encoded = self.encode(source, source_offsets)
        x, given = self._decoded(encoded, target, target_offsets)
        about = (self.copy_key(encoded.memory), encoded.memory, encoded.words)
        return self._copied(x, given, target_offsets, about, encoded.offsets, None)

    def _decoded(self, encoded: Encoded, target: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """What the last decoder layer gives, and the vectors of the target's words, [T, D] each."""
        x = given = self.target(target, ops.ragged_positions(offsets, target))
        for layer in self.decoder:
            x = layer(x, offsets, encoded.memory, encoded.offsets)
        return x, given

    def step(
        self,
        ids: Tensor,
        offsets: Tensor,
        places: Tensor,
        past: Tensor,
        order: Tensor,
        key_offsets: Tensor,
        rows: Tensor,
        source: Tensor,
        source_offsets: Tensor,
        memory: Tensor,
        memory_offsets: Tensor,
        groups: Tensor,
        attention: bool = False,
    ) -> dict[str, Tensor]:
        """See `WritingModel.step`; sources are given once, then what the first step made of them.

        `attention` is the last layer's, the mean of its heads.
        """
        x = given = self.target(ids, places)
        encoded = self._kept_of(source, source_offsets)
        sizes = [self.width] * (2 * self.layers)
        copied = [self.width, self.width, 1] if self.copies else []
        kept = ops.split(past, axis=1, sizes=sizes)
        known = ops.split(ops.concat([memory, encoded], axis=0), axis=1, sizes=sizes + copied)
        fresh: list[Tensor] = []
        looks: list[Tensor] = []
        for i, layer in enumerate(self.decoder):
            before = nn.KeyRows(kept[2 * i], kept[2 * i + 1], order, key_offsets)
            about = (known[2 * i], known[2 * i + 1])
            looks.clear()
            where = (groups, memory_offsets, looks.append)
            x, *own = layer.continued(x, offsets, before, about, *where)  # type: ignore[attr-defined]
            fresh += own
        if self.copies:
            source_of = (known[-3], known[-2], numbers_of(known[-1]))
            logits = self._copied(x, given, groups, source_of, memory_offsets, rows).logits
        else:
            logits = self._logits(ops.gather(x, rows))
        found = told(logits) | {"fresh": ops.concat(fresh, axis=1), "encoded": encoded}
        if not attention:
            return found
        cross: nn.CrossAttention = self.decoder[-1].cross  # type: ignore[attr-defined]
        weights = cross.weights(looks[0], groups, known[2 * self.layers - 2], memory_offsets, self._length)
        return found | {"attention": ops.gather(weights, rows)}

    def _kept_of(self, source: Tensor, offsets: Tensor) -> Tensor:
        """What is kept of sources, [S, W']: keys and values of each layer, and what copying takes."""
        seen = self.encode(source, offsets).memory
        made = [part for layer in self.decoder for part in layer.cross.keys_and_values(seen)]  # type: ignore[attr-defined]
        if not self.copies:
            return ops.concat(made, axis=1)
        return numbered(ops.concat([*made, self.copy_key(seen), seen], axis=1), source)

    def _copied(
        self,
        x: Tensor,
        given: Tensor,
        groups: Tensor,
        about: tuple[Tensor, Tensor, Tensor],
        source_offsets: Tensor,
        rows: Tensor | None,
    ) -> Watched:
        """Log-probabilities and attention of rows of x [T, D], which were `given` [T, D], cut by groups [B + 1].

        about: keys and rows [S, D] of the sources, and their words, int64 [S].
        """
        keys, memory, words = about
        s = x if self.decoder_norm is None else self.decoder_norm(x)
        how: dict[str, Any] = {"heads": 1, "width": self.width, "scale": self.width**-0.5, "length": self.max_length}
        looked, weights = nn.attend_by_place(self.copy_query(s), keys, memory, groups, source_offsets, **how)
        texts = ops.ragged_segments(groups, x)
        parts = (looked, s, given, weights, texts)
        looked, s, given, weights, texts = parts if rows is None else (ops.gather(each, rows) for each in parts)
        logits = ops.matmul(s, self.target.words.weight, transpose_b=True)
        return Watched(self.copying(logits, (looked, s, given), weights, texts, words, source_offsets), weights)

    def _logits(self, x: Tensor) -> Tensor:
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return ops.matmul(x, self.target.words.weight, transpose_b=True)
