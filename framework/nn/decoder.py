"""Transformer decoder layers over ragged sequences, all rows at once in training or one row a step with a cache.

Letters: T rows of all target sequences, S rows of all sources, B sequences, N hypotheses, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework import ops, random
from framework.nn import init
from framework.nn.activation import activation as activation_called
from framework.nn.attention import CrossAttention, MultiHeadAttention
from framework.nn.layer import Layer
from framework.nn.linear import Linear
from framework.nn.norm import LayerNorm
from framework.nn.pool import Dropout
from framework.tensors import Tensor


@dataclass(frozen=True)
class DecoderCache:
    """What a decoder layer keeps between steps.

    Attributes:
        keys, values: of the rows so far, [N, t, D]; None before the first step.
        memory_keys, memory_values: of the source, [S, D], computed once.
    """

    memory_keys: Tensor
    memory_values: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None

    def reordered(self, parents: Tensor) -> DecoderCache:
        """The cache of hypotheses that continue `parents`, int64 [N']. The source's part stays with its source."""
        if self.keys is None or self.values is None:
            return self
        return DecoderCache(
            self.memory_keys, self.memory_values, ops.gather(self.keys, parents), ops.gather(self.values, parents)
        )


class TransformerDecoderLayer(Layer):
    """Causal self-attention, attention to the source, two linear layers; each with dropout, a residual and a norm.

    norm(x + dropout(f(x))) for each part f (Vaswani et al. 2017); with `norm_first` x + dropout(f(norm(x))).

    Args:
        dim: D.
        heads: number of attention heads.
        hidden: width between the two linear layers.
        activation: between them; see `nn.activation`.
        dropout: of what the parts give, and of attention weights.
        norm_first: norms stand before the parts, not after their sums.
        eps: of the norms.
        initializer: of the weights; biases start at 0.
        generator: source of random numbers; the default generator when None.

    Example:
        >>> layer = nn.TransformerDecoderLayer(8, heads=2, hidden=16)
        >>> x, memory = tensor(np.ones((3, 8), np.float32)), tensor(np.ones((6, 8), np.float32))
        >>> layer(x, tensor([0, 3]), memory, tensor([0, 6])).shape
        (3, 8)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        activation: str = "relu",
        dropout: float = 0.1,
        norm_first: bool = False,
        eps: float = 1e-5,
        initializer: init.Initializer | None = None,
        generator: random.Generator | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(dim, heads, dropout, initializer, generator)
        self.cross = CrossAttention(dim, heads, dropout, initializer, generator)
        self.up = Linear(dim, hidden, initializer=initializer)
        self.down = Linear(hidden, dim, initializer=initializer)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(dim, eps) for _ in range(3))
        self.dropout = Dropout(dropout, generator)
        self._activation = activation_called(activation)

    def forward(self, x: Tensor, offsets: Tensor, memory: Tensor, memory_offsets: Tensor) -> Tensor:
        """All rows at once: a row sees itself, those before it, and the whole source.

        x, y: [T, D]; memory: [S, D]; offsets, memory_offsets: integer [B + 1].
        """
        x = self._add(self.norm1, x, lambda h: self.attention(h, offsets, causal=True))
        x = self._add(self.norm2, x, lambda h: self.cross(h, offsets, memory, memory_offsets))
        return self._add(self.norm3, x, self._feed)

    def start(self, memory: Tensor) -> DecoderCache:
        """The cache before the first step. memory: [S, D]."""
        return DecoderCache(*self.cross.keys_and_values(memory))

    def step(
        self,
        x: Tensor,
        cache: DecoderCache,
        offsets: Tensor,
        key_offsets: Tensor,
        groups: Tensor,
        memory_offsets: Tensor,
    ) -> tuple[Tensor, DecoderCache]:
        """The next row of every hypothesis.

        Args:
            x: [N, D], one row each.
            cache: of the t rows before.
            offsets: 0, 1, ... N: each hypothesis has one query.
            key_offsets: 0, t + 1, ... N (t + 1): and that many keys.
            groups: integer [B + 1], where the hypotheses of each source begin and end: those of one source stand
                together, and look at its keys, which are kept once.
            memory_offsets: integer [B + 1].

        Returns:
            y [N, D], and the cache with this row.
        """
        grown = cache

        def attend(h: Tensor) -> Tensor:
            nonlocal grown
            y, grown = self._attend_step(h, cache, offsets, key_offsets)
            return y

        x = self._add(self.norm1, x, attend)
        x = self._add(
            self.norm2,
            x,
            lambda h: self.cross.attend(h, groups, cache.memory_keys, cache.memory_values, memory_offsets),
        )
        return self._add(self.norm3, x, self._feed), grown

    def _attend_step(
        self, x: Tensor, cache: DecoderCache, offsets: Tensor, key_offsets: Tensor
    ) -> tuple[Tensor, DecoderCache]:
        own = self.attention
        query, key, value = ops.split(own.qkv(x), axis=1, sizes=[own.dim] * 3)
        keys, values = _appended(cache.keys, key), _appended(cache.values, value)
        y, _ = ops.ragged_attention(
            query,
            ops.flatten(keys, start=0, end=1),
            ops.flatten(values, start=0, end=1),
            offsets,
            key_offsets,
            heads=own.heads,
            scale=own.scale,
        )
        return own.out(y), DecoderCache(cache.memory_keys, cache.memory_values, keys, values)

    def _add(self, norm: LayerNorm, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def _feed(self, x: Tensor) -> Tensor:
        return self.down(self._activation(self.up(x)))


def _appended(rows: Tensor | None, row: Tensor) -> Tensor:
    """[N, t, D] and [N, D] to [N, t + 1, D]."""
    new = ops.expand_dims(row, axis=1)
    return new if rows is None else ops.concat([rows, new], axis=1)
