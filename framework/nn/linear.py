"""Fully connected layer and table lookup."""

from __future__ import annotations

from framework import ops
from framework.nn import init
from framework.nn.layer import Layer
from framework.tensors import Tensor


class Linear(Layer):
    """y = x weight^T + bias.  x: [..., C], weight: [K, C], bias: [K], y: [..., K].

    Args:
        in_features: C.
        out_features: K.
        bias: add one.
        initializer: of the weight; the bias starts at 0.

    Attributes:
        blocks: how many matrices of equal height the weight is side by side, such as those of queries, keys and values;
            or the height of each.

    Example:
        >>> nn.Linear(4, 2)(tensor(np.ones((3, 4), np.float32))).shape
        (3, 2)
    """

    weight: Tensor
    bias: Tensor | None
    blocks: int | tuple[int, ...] = 1

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, initializer: init.Initializer | None = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.add_parameter("weight", (out_features, in_features), initializer or init.Xavier("uniform"))
        self.bias = None
        if bias:
            self.add_parameter("bias", (out_features,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., C]; y: [..., K]."""
        return ops.matmul(x, self.weight, self.bias, transpose_b=True)

    def _describe(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class Embedding(Layer):
    """Rows of a table.  ids: integer [...], weight: [rows, D], y: [..., D].

    y[i] = weight[ids[i]]

    Args:
        rows: number of ids.
        dim: D.
        padding_idx: an id whose row stays as it is; -1 for none.
        initializer: of the table.

    Example:
        >>> nn.Embedding(100, 8)(tensor([[3, 5, 3]])).shape
        (1, 3, 8)
    """

    weight: Tensor

    def __init__(self, rows: int, dim: int, padding_idx: int = -1, initializer: init.Initializer | None = None) -> None:
        super().__init__()
        self.rows, self.dim, self.padding_idx = rows, dim, padding_idx
        self.add_parameter("weight", (rows, dim), initializer or init.Normal(1.0))

    def forward(self, ids: Tensor) -> Tensor:
        """ids: integer [...]; y: [..., D]."""
        return ops.embedding(self.weight, ids, padding_idx=self.padding_idx)

    def _describe(self) -> str:
        return f"{self.rows}, {self.dim}"
