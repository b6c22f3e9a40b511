"""Convolutions of 8-bit numbers with the file's own integers: the same ones that TensorFlow Lite's reference gives.

Sums are exact, and `requantize` scales and rounds them as the reference does. The runtime's faster kernels (XNNPACK)
round otherwise, by one step at times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework import ops
from framework.ops import internal
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, dequantized, one, quantized, steps_of, to_tensor
from framework.tflite.operators.common import activated
from framework.tflite.reading import Steps, TensorText

_SLACK = 0.01  # of a bias' scale, which files have rounded


@dataclass(frozen=True)
class Window:
    """How a convolution walks: stride and dilation of height and width; padding top, bottom, left, right."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


@dataclass(frozen=True)
class _Filters:
    """Weights without their zero point, [K, R, S, C / groups], as one or more terms of int8 each.

    uint8 weights with a zero point need 9 bits: what is beyond int8 becomes a second term, and a third for +-255.

    Attributes:
        ones: [K] float32, in the place of scales.
        factors: [K] float64, what a step of the sums is in steps of the result.
        bias: [K] int32 in steps of the sums, or None.
    """

    terms: list[Tensor]
    ones: Tensor
    factors: Tensor
    bias: Tensor | None


def convolved(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None, window: Window, *, is_depthwise: bool
) -> Tensor:
    """A convolution of 8-bit images with 8-bit weights that are a constant; the result is in 8 bits."""
    filters: _Filters = node.kept("filters", lambda: _filters(node, weight, bias, is_depthwise))
    _, x_zero = one(node, node.x[0])
    parts = [
        internal.quantized_conv2d(
            x,
            term,
            filters.ones,
            stride=window.stride,
            padding=window.padding,
            dilation=window.dilation,
            groups=window.groups,
            x_zero=x_zero,
            dtype="int32",
        )
        for term in filters.terms
    ]
    sums = parts[0]
    for part in parts[1:]:
        sums = sums + part
    return requantized(node, sums, filters.factors, filters.bias)


def requantized(node: Node, sums: Tensor, factors: Tensor, bias: Tensor | None = None) -> Tensor:
    """int32 sums as the node's result: times `factors`, plus its zero point, cut to its activation's range."""
    _, zero = one(node, node.y[0])
    low, high = range_of(node)
    return internal.requantize(sums, factors, bias, y_zero=zero, low=low, high=high, dtype=str(node.y[0].dtype))


def range_of(node: Node) -> tuple[int, int]:
    """The least and the largest integer that the node's activation leaves of its 8-bit result."""
    scale, zero = one(node, node.y[0])
    low, high = (0, 255) if node.y[0].dtype == "uint8" else (-128, 127)
    name = node.options.get("activation", "NONE")
    if name == "NONE":
        return low, high
    bounds = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}.get(name)
    if bounds is None:
        raise node.fail(f"the activation {name} is not supported")
    first, last = (None if b is None else zero + _rounded(np.float32(b) / np.float32(scale)) for b in bounds)
    low = min(high, max(low, first)) if first is not None else low
    return low, high if last is None else max(low, min(high, last))


def _rounded(v: np.float32) -> int:
    """Halves away from 0."""
    return int(np.sign(v) * np.floor(np.abs(np.float64(v)) + 0.5))


def _filters(node: Node, weight: Tensor, bias: Tensor | None, is_depthwise: bool) -> _Filters:
    w, steps = weight.numpy(), steps_of(node.x[1])
    assert steps is not None
    rest = _without_zero(node, w, steps, is_depthwise)
    filters = len(rest)
    terms: list[Tensor] = []
    while not terms or rest.any():
        term = np.clip(rest, -128, 127).astype(np.int8)
        terms.append(to_tensor(term))
        rest = rest - term
    factors = np.broadcast_to(_factors(node, steps), filters).astype(np.float64)
    return _Filters(terms, to_tensor(np.ones(filters, np.float32)), to_tensor(factors), _bias(node, bias, filters))


def _without_zero(node: Node, w: np.ndarray, steps: Steps, is_depthwise: bool) -> np.ndarray:
    """Weights [K, R, S, C / groups] less their zero points."""
    given = node.x[1]
    assert given is not None
    axis = steps.axis if w.ndim == len(given.shape) else 0
    if not steps.is_one and axis != (3 if is_depthwise else 0):
        raise node.fail(f"its weights have scales along axis {axis}; one a filter is taken")
    zero = steps.zero.reshape([-1 if a == axis and not steps.is_one else 1 for a in range(w.ndim)])
    wide = w.astype(np.int64) - zero
    return np.ascontiguousarray(wide.transpose(3, 1, 2, 0) if is_depthwise else wide)


def _factors(node: Node, steps: Steps) -> np.ndarray:
    """Steps of the sums in those of the result, with the roundings that TensorFlow Lite's own code has."""
    x_scale, _ = one(node, node.x[0])
    y_scale, _ = one(node, node.y[0])
    if node.y[0].dtype == "uint8":  # the product is a float there
        return (np.float32(x_scale) * steps.scale).astype(np.float64) / y_scale
    return x_scale * steps.scale.astype(np.float64) / y_scale


def _bias(node: Node, bias: Tensor | None, filters: int) -> Tensor | None:
    if bias is None:
        return None
    b = node.host(bias, "bias")
    if b.shape != (filters,) or b.dtype != np.int32:
        raise node.fail(f"its bias is {b.dtype} of shape {list(b.shape)}; int32 of [{filters}] is taken")
    _expect_steps_of_sums(node)
    return to_tensor(b)


def _expect_steps_of_sums(node: Node) -> None:
    """Refuses a bias whose numbers stand for others than those of the sums, to which they are added as they are."""
    given, weights = node.x[2], steps_of(node.x[1])
    stated = given.steps if given is not None else None
    if stated is None or weights is None:
        return
    if stated.zero.any():
        raise node.fail(f"its bias has the zero point {stated.zero.flat[0]}; 0 is taken, as the sums have it")
    wanted = one(node, node.x[0])[0] * weights.scale.astype(np.float64)
    comparable = wanted.size in (1, stated.scale.size)
    if comparable and (np.abs(stated.scale - wanted) > _SLACK * wanted).any():
        raise node.fail(
            f"its bias is in steps of {stated.scale.flat[0]:.4g}, and the sums are in steps of {wanted.flat[0]:.4g}, "
            "the scale of the input times that of the weights; the file contradicts itself"
        )


def cut(node: Node, y: Tensor) -> Tensor:
    """8-bit numbers through the node's activation."""
    steps = steps_of(node.y[0])
    assert steps is not None
    if node.option("activation") == "NONE":
        return y
    return quantized(node, activated(node, dequantized(y, steps)), node.y[0])


def eight_of(node: Node, y: Tensor, slack: float = 0.0) -> Tensor:
    """Fractions of steps as integers of the result: halves away from 0, and what is `slack` below them."""
    y = ops.sign(y) * ops.floor(ops.abs(y) + (0.5 + slack))
    low, high = (0.0, 255.0) if node.y[0].dtype == "uint8" else (-128.0, 127.0)
    return ops.cast(ops.clip(y, min=low, max=high), dtype=str(node.y[0].dtype))


def all_eight(*tensors: TensorText | None) -> bool:
    """Whether all are 8-bit numbers that stand for others, by one scale each."""
    return all((s := steps_of(t)) is not None and s.is_one for t in tensors)
