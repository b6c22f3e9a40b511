"""Transformer encoders over ragged sequences, with the norms after (as published) or before the sub-layers."""

from __future__ import annotations

from collections.abc import Callable

from framework import random
from framework.nn import init
from framework.nn.activation import activation as activation_called
from framework.nn.attention import MultiHeadAttention
from framework.nn.layer import Layer
from framework.nn.linear import Linear
from framework.nn.norm import LayerNorm
from framework.nn.pool import Dropout
from framework.tensors import Tensor


class TransformerEncoderLayer(Layer):
    """Self-attention and two linear layers, each with dropout, a residual and a norm.  x, y: [T, D].

    norm1(x + dropout(attention(x))), then norm2(x + dropout(down(activation(up(x))))) (Vaswani et al. 2017); with
    `norm_first` x + dropout(attention(norm1(x))) and so on (Xiong et al. 2020).

    Args:
        dim: D.
        heads: number of attention heads.
        hidden: width between the two linear layers.
        activation: between them, such as "gelu", "gelu_tanh" or "relu"; see `nn.activation`.
        dropout: of what the sub-layers give.
        attention_dropout: of the attention weights; as `dropout` when None.
        norm_first: norms stand before the sub-layers, not after their sums.
        eps: of the norms.
        initializer: of the weights; biases start at 0.
        generator: source of random numbers; the default generator when None.
        head_size: width of an attention head; D / heads when None.
        relative: distance and length of relative positions, see `MultiHeadAttention`.

    Example:
        >>> rows, offsets = tensor(np.ones((5, 8), np.float32)), tensor([0, 2, 5])  # sequences of 2 and 3 rows
        >>> nn.TransformerEncoderLayer(8, heads=2, hidden=32)(rows, offsets).shape
        (5, 8)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        activation: str = "gelu",
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        norm_first: bool = False,
        eps: float = 1e-5,
        initializer: init.Initializer | None = None,
        generator: random.Generator | None = None,
        head_size: int | None = None,
        relative: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        weights_dropout = dropout if attention_dropout is None else attention_dropout
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(dim, heads, weights_dropout, initializer, generator, head_size, relative)
        self.norm1 = LayerNorm(dim, eps)
        self.up = Linear(dim, hidden, initializer=initializer)
        self.down = Linear(hidden, dim, initializer=initializer)
        self.norm2 = LayerNorm(dim, eps)
        self.dropout = Dropout(dropout, generator)
        self._activation = activation_called(activation)

    def forward(self, x: Tensor, offsets: Tensor, causal: bool = False) -> Tensor:
        """x, y: [T, D]; offsets: integer [B + 1], where sequences begin and end; causal: rows see no later ones."""
        return self._run(x, lambda h: self.attention(h, offsets, causal))

    def padded(self, x: Tensor, mask: Tensor) -> Tensor:
        """x, y: [B, L, D]; mask: bool [B, L], false where a row is padding."""
        return self._run(x, lambda h: self.attention.padded(h, mask))

    def _run(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(attend(self.norm1(x)))
            return x + self.dropout(self._feed(self.norm2(x)))
        x = self.norm1(x + self.dropout(attend(x)))
        return self.norm2(x + self.dropout(self._feed(x)))

    def _feed(self, x: Tensor) -> Tensor:
        return self.down(self._activation(self.up(x)))
