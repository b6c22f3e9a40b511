"""Activations by name, as configs give them."""

from __future__ import annotations

from collections.abc import Callable

from framework import ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.nn.layer import Layer
from framework.tensors import Tensor

NAMES = (
    "none", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "gelu_tanh", "silu", "mish", "hardsigmoid",
    "hardswish",
    "sigmoid", "tanh", "softplus", "softsign",
)  # fmt: skip


def activation(name: str, slope: float = 0.01) -> Callable[[Tensor], Tensor]:
    """The element-wise function called `name`, one of `NAMES`; `slope` is leaky_relu's.

    "gelu" is the exact form by erf, "gelu_tanh" the approximation by tanh.

    Raises:
        AttributeValueError: there is no such activation.
    """
    if name not in NAMES:
        raise AttributeValueError(f"activation: '{name}' is not known; it is one of {', '.join(NAMES)}")
    if name == "none":
        return lambda x: x
    if name == "gelu_tanh":
        return lambda x: ops.gelu(x, approximate=True)
    if name == "leaky_relu":
        return lambda x: ops.leaky_relu(x, slope=slope)
    return getattr(ops, name)


class PReLU(Layer):
    """x where it is above 0, a learned slope times x elsewhere (He et al. 2015).  x, y: [..., C].

    y = max(x, 0) + slope * min(x, 0)

    Args:
        channels: C for a slope of each channel; 1 for one slope of all.
        slope: what the slopes start from.

    Example:
        >>> nn.PReLU(slope=0.5)(tensor([[-2.0, 3.0]])).numpy().tolist()
        [[-1.0, 3.0]]
    """

    slope: Tensor

    def __init__(self, channels: int = 1, slope: float = 0.25) -> None:
        super().__init__()
        self.channels = channels
        self.add_parameter("slope", (channels,), init.Constant(slope))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [..., C]."""
        return ops.prelu(x, self.slope)

    def _describe(self) -> str:
        return str(self.channels)


class Activation(Layer):
    """An activation as a layer; see `activation`.

    y = activation(x)

    Args:
        name: one of `NAMES`.
        slope: leaky_relu's slope for negative values.

    Example:
        >>> nn.Activation("relu")(tensor([-1.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """

    def __init__(self, name: str, slope: float = 0.01) -> None:
        super().__init__()
        self.name, self.slope = name, slope
        self._function = activation(name, slope)

    def forward(self, x: Tensor) -> Tensor:
        """x: any; y: the same shape."""
        return self._function(x)

    def _describe(self) -> str:
        return self.name
