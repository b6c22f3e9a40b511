"""One text encoder for the published families, as their config.json describes it. Letters: T tokens, B sequences, D.

BERT, ERNIE, RoBERTa, XLM-R, DistilBERT, ELECTRA, ALBERT, MPNet, DeBERTa-v2 and v3, ModernBERT: the same layers with
other tables, norms, positions and shared weights. Sequences are ragged. Where scores depend on the distance of two
tokens (MPNet, DeBERTa) they are computed for all pairs of tokens of a batch, and those of
other sequences are hidden: memory grows with T^2 there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from framework import nn, ops, tensor
from framework import random as randomness
from framework.errors import CheckpointError
from framework.nn.activation import activation
from framework.nn.init import TruncatedNormal
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.engine.weights.published import read_description
from suites.nlp.models.encoder import LayeredEncoder, TextEncoder
from suites.nlp.models.published_config import Disentangled, EncoderConfig, describe, encoder_config
from suites.nlp.models.published_names import SUMMARIES, current_name, names_of_encoder, prefix_of
from suites.nlp.models.rotary import turns

_HIDDEN = -1e30  # added to the score of a key of another sequence
_FARTHEST = 128  # the distance from which on all are in MPNet's last bucket


class Embeddings(nn.Layer):
    """Word, position, segment and task vectors added, normalised, dropped out and projected to D.

    Args:
        config: the sizes.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        initializer, width = TruncatedNormal(config.init_std), config.embedding_size

        def table(rows: int) -> nn.Embedding | None:
            return nn.Embedding(rows, width, initializer=initializer) if rows else None

        self.first_position = config.first_position
        self.word = nn.Embedding(config.vocab_size, width, initializer=initializer)
        self.position, self.segment, self.task = map(table, (config.positions, config.segment_types, config.task_types))
        self.norm = nn.LayerNorm(width, config.eps, config.norm_biases)
        self.dropout = nn.Dropout(config.dropout)
        self.project = nn.Linear(width, config.hidden_size, initializer=initializer) if config.projected else None

    def forward(
        self, ids: Tensor, positions: Tensor, segment_ids: Tensor | None = None, task_ids: Tensor | None = None
    ) -> Tensor:
        """ids, positions, segment_ids, task_ids: integer [T]; y: [T, D]."""
        x = self.word(ids)
        if self.position is not None:
            x = x + self.position(positions + self.first_position)
        for table, chosen in ((self.segment, segment_ids), (self.task, task_ids)):
            if table is not None:
                x = x + (table.weight[:1] if chosen is None or table.rows == 1 else table(chosen))
        x = self.dropout(self.norm(x))
        return x if self.project is None else self.project(x)


class Places(nn.Layer):
    """What attention needs to know of where the tokens stand, the same for all layers.

    Args:
        config: the sizes.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self._config = config
        initializer = TruncatedNormal(config.init_std)
        self.bias: nn.Embedding | None = None
        self.table: nn.Embedding | None = None
        self.norm: nn.LayerNorm | None = None
        if config.buckets:
            self.bias = nn.Embedding(config.buckets, config.heads, initializer=initializer)
        if (d := config.disentangled) is not None:
            self.table = nn.Embedding(2 * d.span, config.hidden_size, initializer=initializer)
            self.norm = nn.LayerNorm(config.hidden_size, config.eps) if d.normed else None
        if config.rotary is not None:
            size = config.hidden_size // config.heads
            self._turns = [turns(theta, size, config.max_length) for theta in config.rotary.thetas]

    def forward(self, ids: Tensor, offsets: Tensor, positions: Tensor) -> dict[str, Any]:
        """ids, positions: [T]; what layers look up by name."""
        config = self._config
        found: dict[str, Any] = {"offsets": offsets}
        if config.buckets or config.disentangled is not None:
            numbers = ops.ragged_segments(offsets, ids)
            own = ops.equal(ops.expand_dims(numbers, axis=1), ops.expand_dims(numbers, axis=0))
            behind = ops.expand_dims(positions, axis=1) - ops.expand_dims(positions, axis=0)  # i - j
        if self.bias is not None:
            bias = ops.transpose(self.bias(_mpnet_buckets(behind, config.buckets)), perm=(2, 0, 1))
            found["bias"] = ops.expand_dims(ops.where(own, bias, _HIDDEN), axis=0)
        if (d := config.disentangled) is not None and self.table is not None:
            rows = self.table.weight if self.norm is None else self.norm(self.table.weight)
            found |= {"rows": rows, "own": own, "at": _deberta_rows(behind, d)}
        if config.rotary is not None:
            found["turns"] = [[ops.gather(part, positions) for part in pair] for pair in self._turns]
        return found


def _table_of(function: Any, behind: Tensor, farthest: int) -> Tensor:
    """What a function gives for each distance, looked up: int64 [T, T]; farther ones are as the farthest."""
    values = tensor(np.asarray(function(np.arange(-farthest, farthest + 1)), np.int64))
    return ops.gather(values, ops.clip(behind, min=-farthest, max=farthest) + farthest)


def _mpnet_buckets(behind: Tensor, buckets: int) -> Tensor:
    """The bucket of each pair (transformers' MPNetEncoder.relative_position_bucket, of Raffel et al. 2020).

    behind: i - j [T, T].
    """

    def bucket(n: np.ndarray) -> np.ndarray:
        half = buckets // 2
        exact, far = half // 2, np.abs(n)
        share = np.log(np.maximum(far, 1).astype(np.float32) / exact) / math.log(_FARTHEST / exact)
        large = np.minimum(exact + (share * (half - exact)).astype(np.int64), half - 1)
        return (n < 0) * half + np.where(far < exact, far, large)

    return _table_of(bucket, behind, _FARTHEST)


def _deberta_rows(behind: Tensor, d: Disentangled) -> Tensor:
    """The row of the table of relative positions for each pair (DeBERTa's make_log_bucket_position).  behind: i - j."""

    def row(n: np.ndarray) -> np.ndarray:
        if d.buckets:
            half = d.buckets // 2
            far = np.where(np.abs(n) < half, half - 1, np.abs(n)).astype(np.float32)
            log = np.ceil(np.log(far / half) / np.float32(math.log((d.farthest - 1) / half)) * (half - 1)) + half
            n = np.where(far <= half, n, log * np.sign(n)).astype(np.int64)
        return np.clip(n + d.span, 0, 2 * d.span - 1)

    return _table_of(row, behind, max(d.farthest, d.span))


class Attention(nn.Layer):
    """Self-attention of one layer.

    Args:
        config: the sizes.
        windowed: this layer sees its neighbours only.
    """

    def __init__(self, config: EncoderConfig, windowed: bool = False) -> None:
        super().__init__()
        self._config, self._windowed = config, windowed
        initializer, width = TruncatedNormal(config.init_std), config.hidden_size
        self.heads, self.size = config.heads, width // config.heads
        self.qkv = nn.Linear(width, 3 * width, config.biases, initializer)
        self.qkv.blocks = 1 if config.joined else 3
        self.out = nn.Linear(width, width, config.biases, initializer)
        self.dropout = nn.Dropout(config.attention_dropout)
        d = config.disentangled
        own = d is not None and not d.shared
        self.pos_key = nn.Linear(width, width, initializer=initializer) if own and "c2p" in d.terms else None  # type: ignore[union-attr]
        self.pos_query = (
            nn.Linear(width, width, bias=True, initializer=initializer) if own and "p2c" in d.terms else None  # type: ignore[union-attr]
        )

    def forward(self, x: Tensor, places: dict[str, Any]) -> Tensor:
        """x, y: [T, D]."""
        key, p = self._drawn()
        scale = self.size**-0.5
        if "turns" in places:
            return self.out(self._turned(x, places, key, p, scale))
        if "bias" not in places and "rows" not in places:
            y, _ = ops.ragged_self_attention(
                self.qkv(x), places["offsets"], key, heads=self.heads, scale=scale, causal=False, p=p
            )
            return self.out(y)
        q, k, v = self._three(x)
        bias = places.get("bias")
        if bias is None:
            terms = len(self._config.disentangled.terms)  # type: ignore[union-attr]
            scale = (self.size * (1 + terms)) ** -0.5
            bias = self._disentangled(q, k, places, scale)
        return self.out(_attend(q, k, v, bias, key, self.heads, scale, p))

    def _drawn(self) -> tuple[Tensor | None, float]:
        if self.dropout.p == 0 or not self.training:
            return None, 0.0
        return (self.dropout.generator or randomness.default_generator).key(), self.dropout.p

    def _three(self, x: Tensor) -> Sequence[Tensor]:
        return ops.split(self.qkv(x), axis=1, sizes=[self._config.hidden_size] * 3)

    def _turned(self, x: Tensor, places: dict[str, Any], key: Tensor | None, p: float, scale: float) -> Tensor:
        """Attention with rotary positions, of all tokens of a sequence or of neighbours."""
        q, k, v = self._three(x)
        cos, sin = places["turns"][self._windowed]
        q, k = (ops.rotary_embedding(part, cos, sin, heads=self.heads) for part in (q, k))
        assert self._config.rotary is not None
        window = self._config.rotary.window + 1 if self._windowed else 0
        return ops.ragged_attention(
            q, k, v, places["offsets"], None, key, heads=self.heads, scale=scale, causal=False, p=p, window=window
        )[0]

    def _disentangled(self, q: Tensor, k: Tensor, places: dict[str, Any], scale: float) -> Tensor:
        """What the distances add to the scores: [1, heads, T, T]."""
        rows, at, total = self.dropout(places["rows"]), places["at"], None
        d = self._config.disentangled
        assert d is not None
        shared = self._three(rows) if d.shared else ()
        for term, number, own in (("c2p", 1, self.pos_key), ("p2c", 0, self.pos_query)):
            if term not in d.terms:
                continue
            seen = shared[number] if own is None else own(rows)
            looks = _by_head(q if term == "c2p" else k, self.heads)
            products = ops.matmul(looks, _by_head(seen, self.heads), transpose_b=True) * scale  # [heads, T, rows]
            picked = [
                ops.take_along_axis(products[h], at if term == "c2p" else ops.transpose(at), axis=1)
                for h in range(self.heads)
            ]
            picked = picked if term == "c2p" else [ops.transpose(each) for each in picked]
            added = ops.concat([ops.expand_dims(each, axis=0) for each in picked], axis=0)
            total = added if total is None else total + added
        assert total is not None
        return ops.expand_dims(ops.where(places["own"], total, _HIDDEN), axis=0)


def _by_head(x: Tensor, heads: int) -> Tensor:
    """[T, D] -> [heads, T, D / heads]."""
    return ops.transpose(ops.reshape(x, shape=(0, heads, -1)), perm=(1, 0, 2))


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, key: Tensor | None, heads: int, scale: float, p: float
) -> Tensor:
    """q, k, v, y: [T, D]; mask: [1, heads or 1, T, T]."""
    q, k, v = (ops.expand_dims(part, axis=0) for part in (q, k, v))
    y, _ = ops.scaled_dot_product_attention(q, k, v, mask, key, heads=heads, scale=scale, causal=False, p=p)
    return ops.squeeze(y, axis=0)


class EncoderLayer(nn.Layer):
    """Attention and two linear layers with residuals and norms.

    Args:
        config: the sizes.
        number: of the layer.
    """

    def __init__(self, config: EncoderConfig, number: int) -> None:
        super().__init__()
        initializer, width = TruncatedNormal(config.init_std), config.hidden_size
        self._config, self._activation = config, activation(config.activation)
        self.attention = Attention(config, config.rotary is not None and config.rotary.windowed[number])
        first = config.norm_first and number == 0
        self.norm1 = None if first else nn.LayerNorm(width, config.eps, config.norm_biases)
        up = 2 * config.ffn_size if config.gated else config.ffn_size
        self.up = nn.Linear(width, up, config.ffn_biases, initializer)
        self.down = nn.Linear(config.ffn_size, width, config.ffn_biases, initializer)
        self.norm2 = nn.LayerNorm(width, config.eps, config.norm_biases)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, places: dict[str, Any]) -> Tensor:
        """x, y: [T, D]."""
        if self._config.norm_first:
            x = x + self.attention(x if self.norm1 is None else self.norm1(x), places)
            return x + self._feed(self.norm2(x))
        assert self.norm1 is not None
        x = self.norm1(x + self.dropout(self.attention(x, places)))
        return self.norm2(x + self.dropout(self._feed(x)))

    def _feed(self, x: Tensor) -> Tensor:
        x = self.up(x)
        if not self._config.gated:
            return self.down(self._activation(x))
        x, gate = ops.split(x, axis=1, sizes=[self._config.ffn_size] * 2)
        return self.down(self.dropout(self._activation(x) * gate))


class Beside(nn.Layer):
    """A convolution along the text beside DeBERTa's first layer: norm(y + activation(dropout(conv(x)))).

    Args:
        config: the sizes.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d, width = config.disentangled, config.hidden_size
        assert d is not None
        self._kernel, self._activation = d.kernel, activation(d.kernel_activation)
        self.add_parameter("weight", (width, d.kernel, width), TruncatedNormal(config.init_std))
        self.add_parameter("bias", (width,), nn.init.Constant(0.0))
        self.norm, self.dropout = nn.LayerNorm(width, config.eps), nn.Dropout(config.dropout)

    def forward(self, x: Tensor, y: Tensor, offsets: Tensor) -> Tensor:
        """x, what goes into the layer, y, what it gives, and the result: [T, D]."""
        half = self._kernel // 2
        around = ops.ragged_window(x, offsets, before=half, after=half)
        seen = ops.matmul(around, ops.reshape(self.weight, shape=(0, -1)), self.bias, transpose_b=True)
        return self.norm(y + self._activation(self.dropout(seen)))


@register("encoder")
class PublishedEncoder(LayeredEncoder):
    """The encoder that a checkpoint's config.json describes, of any of the families of `published_config.KINDS`.

    `{type: Published, weights: NAME}` in a config becomes one with the fields of that checkpoint.

    Args:
        fields: those of config.json. A field whose effect is not known is an error.
        summary: what makes the pooled vector: the "encoder" as it was pretrained, or what its family's "classifier" of
            texts has there; "none" leaves the first token's vector as it is, as in models of tokens.
    """

    schemes = ("hf",)

    def __init__(self, fields: dict[str, Any], summary: Literal["encoder", "classifier", "none"] = "encoder") -> None:
        super().__init__()
        self.config = c = encoder_config(fields)
        if summary == "classifier" and c.kind not in SUMMARIES:
            raise CheckpointError(
                f"PublishedEncoder: what classifiers of {c.kind} have on the first token is not known"
            )
        self._summary, kind, self.output_name = SUMMARIES[c.kind] if summary == "classifier" else ("", "tanh", "")
        self._pooled = activation(kind)
        self._classifies = summary == "classifier"
        self.hidden_size, self.vocab_size, self.layer_count = c.hidden_size, c.vocab_size, c.layers
        self.max_length, self.task_types = c.max_length, c.task_types
        self.embeddings, self.places = Embeddings(c), Places(c)
        self.layers = nn.LayerList(EncoderLayer(c, i) for i in range(c.layer_sets * c.inner))
        self.beside = Beside(c) if c.disentangled is not None and c.disentangled.kernel else None
        self.norm = nn.LayerNorm(c.hidden_size, c.eps, c.norm_biases) if c.norm_first else None
        initializer = TruncatedNormal(c.init_std)
        pools = summary != "none" and (c.pooler or self._classifies)
        self.pooler = nn.Linear(c.hidden_size, c.hidden_size, initializer=initializer) if pools else None

    def states(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        positions: Tensor | None = None,
        task_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """What each layer gives, [T, D] each: the embeddings first, `forward`'s sequence last; arguments as there."""
        if positions is None:
            positions = ops.ragged_positions(offsets, ids)
        places = self.places(ids, offsets, positions)
        states = [self.embeddings(ids, positions, segment_ids, task_ids)]
        for i in range(self.config.layers):
            x = states[-1]
            for layer in self._layers_of(i):
                x = layer(x, places)
            if i == 0 and self.beside is not None:
                x = self.beside(states[0], x, offsets)
            states.append(x)
        if self.norm is not None:
            states[-1] = self.norm(states[-1])
        return states

    def pooled(self, sequence: Tensor, offsets: Tensor) -> Tensor:
        """[B, D]: each sequence's first token, through the pooler where there is one.  sequence: [T, D]."""
        first = ops.gather(sequence, offsets[:-1])
        return first if self.pooler is None else self._pooled(self.pooler(first))

    def _layers_of(self, i: int) -> list[nn.Layer]:
        """The layers that are the i-th: of a set, where sets are shared."""
        c = self.config
        at = i * c.layer_sets // c.layers
        return [self.layers[at * c.inner + j] for j in range(c.inner)]

    def names_in(self, scheme: str) -> Names:
        """Hugging Face's names."""
        found = names_of_encoder(self.config)
        if self._summary or self.pooler is None:  # it lies beside the encoder, or there is none
            return replace(found, sources={n: s for n, s in found.sources.items() if not n.startswith("pooler.")})
        return found

    def names_beside(self) -> Names:
        """Those of a classifier's summary, which lie beside the encoder in a file."""
        leaves = ("weight", "bias") if self._summary else ()
        return Names({f"pooler.{leaf}": Source((f"{self._summary}.{leaf}",)) for leaf in leaves})

    @property
    def prefix(self) -> str:
        """What stands before these names in files of whole models."""
        return prefix_of(self.config.kind)

    def current_name(self, name: str) -> str:
        """What a file's older name is today."""
        return current_name(name)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """A pooler may be missing, as in models of masked words; not that of a classifier."""
        return () if self._classifies else (r"^pooler\.",)


@register("encoder", "Published")
def published_encoder(weights: str) -> TextEncoder:
    """The encoder that the config.json of published weights describes; a run keeps the description.

    Args:
        weights: their name, such as `hf:OWNER/NAME` or `minilm_l6`, or a checkpoint's folder. What stands on the
            encoder loads them: `SequenceClassifier(weights=...)`.

    Raises:
        CheckpointError: they are not here, or of a network that is not known.
    """
    fields, where = read_description(weights)
    return PublishedEncoder(dict(describe(fields, where, "encoder", weights)["fields"]))
