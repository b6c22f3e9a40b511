"""Multi-head attention over ragged sequences: rows of all sequences one after the other, cut by offsets."""

from __future__ import annotations

from typing import NamedTuple

from framework import ops, random
from framework.errors import AttributeValueError, NotSupportedError
from framework.nn import init
from framework.nn.layer import Layer
from framework.nn.linear import Linear
from framework.nn.places import attend_by_place
from framework.nn.pool import Dropout
from framework.nn.relative import RelativePositions
from framework.tensors import Tensor

_HIDDEN = -1e9  # what the score of a padding key becomes


class KeyRows(NamedTuple):
    """Keys and values of rows that came before, in which a decoder's next rows look; layers have one each.

    Attributes:
        keys, values: [P, D], in any order; several sequences may share a row.
        order: int64 [K], for each sequence the rows that it sees: those below P are of `keys`, P + t is its new row t.
        offsets: integer [N + 1], where the rows of each sequence in `order` begin and end; its new rows are the last.
    """

    keys: Tensor
    values: Tensor
    order: Tensor
    offsets: Tensor

    def with_rows(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [K, D] in `order`.  keys, values: [T, D], of the new rows."""
        joined = (ops.concat([self.keys, keys], axis=0), ops.concat([self.values, values], axis=0))
        return ops.gather(joined[0], self.order), ops.gather(joined[1], self.order)


class _Attention(Layer):
    """What both kinds share: the heads, and the dropout of their weights."""

    def __init__(
        self, dim: int, heads: int, dropout: float, generator: random.Generator | None, head_size: int | None = None
    ) -> None:
        super().__init__()
        if heads < 1 or (head_size is None and dim % heads):
            raise AttributeValueError(f"{type(self).__name__}: {heads} heads do not divide a width of {dim}")
        if head_size is not None and head_size < 1:
            raise AttributeValueError(f"{type(self).__name__}: head_size is {head_size}; it must be 1 or more")
        size = dim // heads if head_size is None else head_size
        self.dim, self.heads, self.inner = dim, heads, heads * size
        self.scale = size**-0.5
        self.dropout = Dropout(dropout, generator)

    def _drawn(self) -> tuple[Tensor | None, float]:
        """The key and the probability of the weights' dropout."""
        if self.dropout.p == 0 or not self.training:
            return None, 0.0
        return (self.dropout.generator or random.default_generator).key(), self.dropout.p

    def _describe(self) -> str:
        return f"{self.dim}, heads={self.heads}"


class MultiHeadAttention(_Attention):
    """Self-attention: each row sees the rows of its own sequence (Vaswani et al. 2017).  x, y: [T, D].

    y = (all heads side by side) W^T + b, a head softmax(q k^T / sqrt(head size)) v, with q, k, v of x

    The weights of queries, keys and values are one matrix [3 D, D], in this order; [3 I, D] where all heads together
    have another width I = heads * head_size, as when some heads of a trained model were cut away.

    Args:
        dim: D.
        heads: number of heads; it divides D.
        dropout: probability that an attention weight is 0 in training.
        initializer: of the weights; the biases start at 0.
        generator: source of random numbers; the default generator when None.
        head_size: width of a head; D / heads when None.
        relative: (K, L), distances up to K between rows count in sequences of L rows at most, see `RelativePositions`.

    Example:
        >>> rows, offsets = tensor(np.ones((5, 8), np.float32)), tensor([0, 2, 5])  # sequences of 2 and 3 rows
        >>> nn.MultiHeadAttention(8, heads=2)(rows, offsets).shape
        (5, 8)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        dropout: float = 0.0,
        initializer: init.Initializer | None = None,
        generator: random.Generator | None = None,
        head_size: int | None = None,
        relative: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(dim, heads, dropout, generator, head_size)
        self.relative = None if relative is None else RelativePositions(self.inner // heads, *relative)
        self.qkv = Linear(dim, 3 * self.inner, initializer=initializer)
        self.qkv.blocks = 3
        self.out = Linear(self.inner, dim, initializer=initializer)

    def forward(self, x: Tensor, offsets: Tensor, causal: bool = False) -> Tensor:
        """Attention without padding.

        Args:
            x: [T, D], the rows of all sequences.
            offsets: integer [B + 1]; sequence b has rows offsets[b] ... offsets[b + 1] - 1.
            causal: a row sees itself and those before it only.

        Returns:
            y: [T, D].
        """
        key, p = self._drawn()
        if self.relative is not None:
            q, k, v = ops.split(self.qkv(x), axis=1, sizes=[self.inner] * 3)
            places = ops.ragged_positions(offsets, x)
            how = {"heads": self.heads, "scale": self.scale}
            y = self.relative.attend(q, k, v, offsets, offsets, places, places, key, causal=causal, p=p, **how)
            return self.out(y)
        y, _ = ops.ragged_self_attention(
            self.qkv(x), offsets, key, heads=self.heads, scale=self.scale, causal=causal, p=p
        )
        return self.out(y)

    def continued(self, x: Tensor, offsets: Tensor, past: KeyRows) -> tuple[Tensor, Tensor, Tensor]:
        """Causal attention of rows that follow others.

        Args:
            x: [T, D], the new rows of all sequences.
            offsets: integer [N + 1], where those of each sequence begin and end.
            past: the rows before.

        Returns:
            y [T, D], and keys and values [T, D] of the new rows.
        """
        query, keys, values = ops.split(self.qkv(x), axis=1, sizes=[self.inner] * 3)
        if self.relative is not None:
            rows = past.with_rows(keys, values)
            before = (past.offsets[1:] - past.offsets[:-1]) - (offsets[1:] - offsets[:-1])
            places = ops.ragged_positions(offsets, x) + ops.gather(before, ops.ragged_segments(offsets, x))
            y = self.relative.attend(
                query,
                *rows,
                offsets,
                past.offsets,
                places,
                ops.ragged_positions(past.offsets, past.order),
                heads=self.heads,
                scale=self.scale,
                causal=True,
            )
            return self.out(y), keys, values
        y, _ = ops.ragged_attention(
            query,
            *past.with_rows(keys, values),
            offsets,
            past.offsets,
            heads=self.heads,
            scale=self.scale,
            causal=True,
        )
        return self.out(y), keys, values

    def padded(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same for sequences padded to one length, for comparison with what others compute.

        Args:
            x: [B, L, D].
            mask: bool [B, L], false where a row is padding, which no row sees.

        Returns:
            y: [B, L, D]; rows of padding hold numbers without meaning.

        Raises NotSupportedError with relative positions.
        """
        if self.relative is not None:
            raise NotSupportedError("MultiHeadAttention: padded rows have no relative positions; give ragged ones")
        q, k, v = (self._heads_of(part) for part in ops.split(self.qkv(x), axis=-1, sizes=[self.inner] * 3))
        scores = ops.matmul(q, k, transpose_b=True) * self.scale
        seen = ops.expand_dims(ops.expand_dims(mask, axis=1), axis=1)  # [B, 1, 1, L]
        weights = self.dropout(ops.softmax(ops.where(seen, scores, _HIDDEN)))
        y = ops.transpose(ops.matmul(weights, v), perm=(0, 2, 1, 3))
        return self.out(ops.reshape(y, shape=(0, 0, -1)))

    def _heads_of(self, x: Tensor) -> Tensor:
        """[B, L, D] -> [B, heads, L, D / heads]."""
        return ops.transpose(ops.reshape(x, shape=(0, 0, self.heads, -1)), perm=(0, 2, 1, 3))


class CrossAttention(_Attention):
    """Attention of each sequence to a sequence of another kind, such as a decoder's to its source.  x, y: [T, D].

    y = (all heads side by side) W^T + b, a head softmax(q k^T / sqrt(head size)) v, with q of x and k, v of memory

    Args:
        dim: D.
        heads: number of heads; it divides D.
        dropout: probability that an attention weight is 0 in training.
        initializer: of the weights; the biases start at 0.
        generator: source of random numbers; the default generator when None.

    Example:
        >>> x, memory = tensor(np.ones((3, 8), np.float32)), tensor(np.ones((6, 8), np.float32))
        >>> attention = nn.CrossAttention(8, heads=2)
        >>> attention(x, tensor([0, 1, 3]), memory, tensor([0, 4, 6])).shape
        (3, 8)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        dropout: float = 0.0,
        initializer: init.Initializer | None = None,
        generator: random.Generator | None = None,
    ) -> None:
        super().__init__(dim, heads, dropout, generator)
        self.q, self.k, self.v, self.out = (Linear(dim, dim, initializer=initializer) for _ in range(4))

    def forward(self, x: Tensor, offsets: Tensor, memory: Tensor, memory_offsets: Tensor) -> Tensor:
        """x: [T, D] and memory [S, D], each with its offsets [B + 1]; y: [T, D]."""
        return self.attend(x, offsets, *self.keys_and_values(memory), memory_offsets)

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [S, D] of what is looked at: computed once for many queries."""
        return self.k(memory), self.v(memory)

    def weights(self, x: Tensor, offsets: Tensor, keys: Tensor, memory_offsets: Tensor, length: int) -> Tensor:
        """How much x [T, D] looks at each place of its source, [T, length], the mean of all heads.

        keys: [S, D]; a source of more than `length` rows is an error.
        """
        how = {"heads": self.heads, "width": self.dim // self.heads, "scale": self.scale, "length": length}
        return attend_by_place(self.q(x), keys, keys, offsets, memory_offsets, **how)[1]

    def attend(
        self, x: Tensor, offsets: Tensor, keys: Tensor, values: Tensor, memory_offsets: Tensor, causal: bool = False
    ) -> Tensor:
        """Attention of x [T, D] to keys and values [S, D]; `causal` counts from the ends of both sequences."""
        key, p = self._drawn()
        y, _ = ops.ragged_attention(
            self.q(x),
            keys,
            values,
            offsets,
            memory_offsets,
            key,
            heads=self.heads,
            scale=self.scale,
            causal=causal,
            p=p,
        )
        return self.out(y)
