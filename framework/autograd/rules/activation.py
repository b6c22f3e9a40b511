"""The derivative of an activation that an operator applies to its result, from the result itself."""

from framework.ops import internal
from framework.tensor import Tensor


def before_activation(dy: Tensor, y: Tensor, activation: str, slope: float) -> Tensor:
    """Gradient of what the activation was applied to, given `dy` and `y` after it; both of one shape."""
    if activation == "relu":
        return internal.relu_grad(dy, y)
    if activation == "relu6":
        return internal.relu6_grad(dy, y)
    if activation == "leaky_relu":
        return internal.leaky_relu_grad(
            dy, y, slope=slope
        )  # y has the sign of what it was made of: slope is not negative
    if activation == "sigmoid":
        return internal.sigmoid_grad(dy, y)
    if activation == "tanh":
        return internal.tanh_grad(dy, y)
    return dy


NEEDS_INPUT = ("silu", "gelu", "gelu_tanh")  # activations whose derivative does not follow from the result


def at_input(dy: Tensor, z: Tensor, activation: str) -> Tensor:
    """The same for an activation of NEEDS_INPUT, given what it was applied to."""
    if activation == "silu":
        return internal.silu_grad(dy, z)
    return internal.gelu_grad(dy, z, approximate=activation == "gelu_tanh")
