"""Transformer decoder layers over ragged sequences, all rows at once in training or the next ones after those before.

Letters: T rows of all target sequences, S rows of all sources, B sequences, N hypotheses, D width.
"""

from __future__ import annotations

from collections.abc import Callable

from framework import random
from framework.nn import init
from framework.nn.activation import activation as activation_called
from framework.nn.attention import CrossAttention, KeyRows, MultiHeadAttention
from framework.nn.layer import Layer
from framework.nn.linear import Linear
from framework.nn.norm import LayerNorm
from framework.nn.pool import Dropout
from framework.tensors import Tensor


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
        relative: distance and length of relative positions in self-attention, see `MultiHeadAttention`.

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
        relative: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(dim, heads, dropout, initializer, generator, relative=relative)
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
        return self.around(
            x,
            lambda h: self.attention(h, offsets, causal=True),
            lambda h: self.cross(h, offsets, memory, memory_offsets),
        )

    def around(
        self,
        x: Tensor,
        attend: Callable[[Tensor], Tensor],
        look: Callable[[Tensor], Tensor],
        product: Callable[[Linear, Tensor], Tensor] = Linear.__call__,
    ) -> Tensor:
        """The layer with attentions of the caller's.

        Args:
            x: [T, D].
            attend: in place of the self-attention, rows [T, D] to rows.
            look: in place of the attention to the source.
            product: computes the other linear layers.

        Returns y [T, D].
        """
        x = self._add(self.norm1, x, attend)
        x = self._add(self.norm2, x, look)
        return self._add(self.norm3, x, lambda h: product(self.down, self._activation(product(self.up, h))))

    def continued(
        self,
        x: Tensor,
        offsets: Tensor,
        past: KeyRows,
        memory: tuple[Tensor, Tensor],
        groups: Tensor,
        memory_offsets: Tensor,
        watch: Callable[[Tensor], object] = lambda h: None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The next rows of every hypothesis.

        Args:
            x: [T, D], one row each, or several, as of a beginning that is given.
            offsets: integer [N + 1], where the rows of each hypothesis begin and end.
            past: the rows before.
            memory: keys and values [S, D] of the sources, see `CrossAttention.keys_and_values`.
            groups: integer [B + 1], where the rows of x begin and end that belong to a source: its hypotheses stand
                together, and look at its keys, which are there once.
            memory_offsets: integer [B + 1].
            watch: takes the rows [T, D] that look at the source, see `CrossAttention.weights`.

        Returns:
            y [T, D], and keys and values [T, D] of these rows.
        """
        own: list[Tensor] = []

        def attend(h: Tensor) -> Tensor:
            y, *rows = self.attention.continued(h, offsets, past)
            own.extend(rows)
            return y

        def look(h: Tensor) -> Tensor:
            watch(h)
            return self.cross.attend(h, groups, *memory, memory_offsets)

        return self.around(x, attend, look), own[0], own[1]

    def _add(self, norm: LayerNorm, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))
