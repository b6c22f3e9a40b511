"""The activations that operators apply to their results, by the operators that they name, and their gradients."""

from __future__ import annotations

from typing import Any

from framework.ops.dispatch import call_by_name
from framework.ops.registry import find
from framework.tensors import Tensor


def _operator(activation: str, slope: float) -> tuple[str, dict[str, Any]]:
    """The operator that an activation is, and its attributes."""
    if activation == "gelu_tanh":
        return "gelu", {"approximate": True}
    return activation, {"slope": slope} if activation == "leaky_relu" else {}


def activated(x: Tensor, activation: str, slope: float) -> Tensor:
    """x with the activation applied, "none" too."""
    if activation == "none":
        return x
    name, attrs = _operator(activation, slope)
    return call_by_name(name, [x], **attrs)


def reads_input(activation: str) -> bool:
    """Whether the derivative is taken at the activation's input; else it follows from the result.

    The operator of the gradient tells by its signature, "dy, x" or "dy, y". One stands for both: with the slopes that
    are allowed here, the result of leaky_relu has the sign of its input.
    """
    if activation in ("none", "leaky_relu"):
        return False
    info = find(f"{_operator(activation, 0)[0]}_grad")
    return info is not None and info.inputs[1]["name"] == "x"


def before_activation(dy: Tensor, at: Tensor, activation: str, slope: float) -> Tensor:
    """The gradient of what the activation was applied to, given `dy` of its result; all of one shape.

    Args:
        dy: gradient of the activation's result.
        at: what it was applied to, where the derivative `reads_input`; else that or its result.
        activation: one of those that the native operators take.
        slope: of leaky_relu.
    """
    if activation == "none":
        return dy
    name, attrs = _operator(activation, slope)
    return call_by_name(f"{name}_grad", [dy, at], **attrs)
