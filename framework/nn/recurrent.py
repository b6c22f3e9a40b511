"""LSTM and GRU over ragged data: sequences of any length laid end to end, nothing padded.

Letters: T rows of all sequences, B sequences, C features in, D hidden units, S directions (2 when bidirectional).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from framework import ops
from framework.errors import AttributeValueError, NotSupportedError
from framework.nn import init
from framework.nn.container import LayerList
from framework.nn.layer import Layer
from framework.nn.pool import Dropout
from framework.tensors import Tensor

Product = Callable[[Tensor, Tensor, Tensor], Tensor]


class _Cells(Layer):
    """One layer of cells in all its directions. `gates` blocks of D rows make a weight."""

    weight_x: Tensor
    weight_h: Tensor
    bias: Tensor
    gates = 0

    def __init__(self, in_features: int, hidden: int, bidirectional: bool, weight_dropout: float = 0.0) -> None:
        super().__init__()
        self.weight_drop = Dropout(weight_dropout)
        parts, bound = 2 if bidirectional else 1, 1 / math.sqrt(hidden)
        self.direction = "both" if bidirectional else "forward"
        uniform = init.Uniform(-bound, bound)
        self.add_parameter("weight_x", (parts * self.gates * hidden, in_features), uniform)
        self.add_parameter("weight_h", (parts, self.gates * hidden, hidden), uniform)
        self.add_parameter("bias", (parts * self.gates * hidden,), self._first_bias(hidden))

    def _first_bias(self, hidden: int) -> init.Initializer:
        return init.Constant(0.0)

    def x_gates(self, x: Tensor, product: Product | None = None) -> Tensor:
        """What the rows themselves give to the gates, as one product.  x: [T, C]; result: [T, S * gates * D]."""
        if product is not None:
            return product(x, self.weight_x, self.bias)
        return ops.matmul(x, self.weight_x, self.bias, transpose_b=True)


class _LstmCells(_Cells):
    gates = 4

    def _first_bias(self, hidden: int) -> init.Initializer:
        """1 for the forget gates, so that a new cell remembers (Jozefowicz et al. 2015)."""

        def draw(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
            bias = np.zeros((shape[0] // (4 * hidden), 4, hidden), np.float32)
            bias[:, 1] = 1.0
            return bias.reshape(shape)

        return draw

    def forward(
        self, x: Tensor, offsets: Tensor, state: Sequence[Tensor | None], product: Product | None = None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        h0, c0 = state
        weight = self.weight_drop(self.weight_h)
        y, h, c, _, cells = ops.lstm(self.x_gates(x, product), weight, offsets, h0, c0, direction=self.direction)
        return y, [h, c], [y, cells]


class _GruCells(_Cells):
    bias_h: Tensor
    gates = 3

    def __init__(self, in_features: int, hidden: int, bidirectional: bool, weight_dropout: float = 0.0) -> None:
        super().__init__(in_features, hidden, bidirectional, weight_dropout)
        self.add_parameter("bias_h", (2 if bidirectional else 1, 3 * hidden), init.Constant(0.0))

    def forward(
        self, x: Tensor, offsets: Tensor, state: Sequence[Tensor | None], product: Product | None = None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        (h0,) = state
        weight = self.weight_drop(self.weight_h)
        y, h, _ = ops.gru(self.x_gates(x, product), weight, offsets, self.bias_h, h0, direction=self.direction)
        return y, [h], [y]


class _Recurrent(Layer):
    """Layers of cells, one on the other."""

    cells: type[_Cells]
    states = 0

    def __init__(
        self,
        in_features: int,
        hidden: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if min(in_features, hidden, layers) < 1:
            raise AttributeValueError(
                f"{type(self).__name__}: in_features is {in_features}, hidden {hidden} and layers {layers}; "
                "all must be 1 or more"
            )
        self.in_features, self.hidden, self.bidirectional = in_features, hidden, bidirectional
        self.out_features = hidden * (2 if bidirectional else 1)
        widths = [in_features, *[self.out_features] * (layers - 1)]
        self.layers = LayerList(self.cells(width, hidden, bidirectional, weight_dropout) for width in widths)
        self.drop = Dropout(dropout)

    def _run(self, x: Tensor, offsets: Tensor, state: Sequence[Tensor] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        parts = self.out_features // self.hidden
        given = [None] * self.states if state is None else list(state)
        found: list[list[Tensor]] = []
        for i, layer in enumerate(self.layers):
            own = [None if s is None else s[i * parts : (i + 1) * parts] for s in given]
            x, last, _ = layer(self.drop(x) if i else x, offsets, own)
            found.append(last)
        return x, tuple(ops.concat(list(of_kind), axis=0) for of_kind in zip(*found, strict=True))

    @property
    def state_width(self) -> int:
        """W, numbers of the state after a row: those of `with_states`."""
        return len(self.layers) * self.states * self.out_features

    def with_states(
        self, x: Tensor, offsets: Tensor, state: Tensor | None = None, product: Product | None = None
    ) -> tuple[Tensor, Tensor]:
        """y [T, S * D] as of `forward`, and the state after each row, [T, W]; sequences can go on from any of them.

        x: [T, C]; offsets: integer [B + 1]; state: [B, W], rows of such states; zeros where it is left out. W holds
        layer by layer h, and with an LSTM c. product: x W^T + b of a layer's input, weight and bias, in place of
        `ops.matmul`. NotSupportedError for a layer that runs in both directions.
        """
        if self.bidirectional:
            raise NotSupportedError(f"{type(self).__name__}: a layer in both directions cannot go on from a row")
        given: list[Tensor | None] = [None] * (len(self.layers) * self.states)
        if state is not None:
            parts = ops.split(state, axis=1, sizes=[self.hidden] * len(given))
            given = [ops.expand_dims(part, axis=0) for part in parts]
        rows: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, _, own = layer(
                self.drop(x) if i else x, offsets, given[i * self.states : (i + 1) * self.states], product
            )
            rows += own
        return x, ops.concat(rows, axis=1)

    def _describe(self) -> str:
        return f"{self.in_features}, {self.hidden}" + (", bidirectional" if self.bidirectional else "")


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), the equations of `ops.lstm`.

    i, f, g, o = gates of x[t] and h[t - 1];  c[t] = f * c[t - 1] + i * g;  h[t] = o * tanh(c[t])

    Args:
        in_features: C.
        hidden: D.
        layers: L, one on the other.
        bidirectional: run every layer in both directions; its output is then [T, 2 D], forward first.
        dropout: probability of dropping an input of layers 1, 2, ... in training.
        weight_dropout: probability of dropping a weight between h[t - 1] and the gates, the same ones for all rows of a
            run (DropConnect; Merity et al. 2018, section 2).

    Weights start uniform in (-1/sqrt(D), 1/sqrt(D)), biases at 0, those of the forget gates at 1.

    Example:
        >>> rows, offsets = tensor(np.ones((5, 4), np.float32)), tensor([0, 2, 5])  # sequences of 2 and 3 rows
        >>> y, state = nn.LSTM(4, 8, bidirectional=True)(rows, offsets)
        >>> y.shape
        (5, 16)
    """

    cells = _LstmCells
    states = 2

    def forward(
        self, x: Tensor, offsets: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x: [T, C]; offsets: integer [B + 1]; state: (h, c), each [L * S, B, D], zeros where it is left out.

        Returns:
            y [T, S * D] of the last layer, and (h, c) after each sequence's last row, as `state`.
        """
        y, (h, c) = self._run(x, offsets, state)
        return y, (h, c)


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014), the equations of `ops.gru`.

    r, z = gates of x[t] and h[t - 1];  n = tanh(gate of x[t] and r);  h[t] = (1 - z) * n + z * h[t - 1]

    Args:
        in_features: C.
        hidden: D.
        layers: L, one on the other.
        bidirectional: run every layer in both directions; its output is then [T, 2 D], forward first.
        dropout: probability of dropping an input of layers 1, 2, ... in training.
        weight_dropout: probability of dropping a weight between h[t - 1] and the gates, the same ones for all rows of a
            run (DropConnect; Merity et al. 2018, section 2).

    Weights start uniform in (-1/sqrt(D), 1/sqrt(D)), biases at 0.

    Example:
        >>> rows, offsets = tensor(np.ones((5, 4), np.float32)), tensor([0, 2, 5])
        >>> y, state = nn.GRU(4, 8)(rows, offsets)
        >>> y.shape
        (5, 8)
    """

    cells = _GruCells
    states = 1

    def forward(self, x: Tensor, offsets: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x: [T, C]; offsets: integer [B + 1]; state: [L * S, B, D], zeros where it is left out.

        Returns:
            y [T, S * D] of the last layer, and the state after each sequence's last row, as `state`.
        """
        y, (h,) = self._run(x, offsets, None if state is None else [state])
        return y, h
