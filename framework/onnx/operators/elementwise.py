"""Element-wise arithmetic and activations of ONNX."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import constant, is_float, like, per_channel
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

_FLOAT_UNARY = {
    "Acos": ops.acos,
    "Asin": ops.asin,
    "Atan": ops.atan,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "HardSwish": ops.hardswish,
    "Log": ops.log,
    "Mish": ops.mish,
    "Reciprocal": ops.reciprocal,
    "Sigmoid": ops.sigmoid,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
}
_NUMBER_UNARY = {"Abs": ops.abs, "Neg": ops.neg, "Sign": ops.sign}
_ROUNDING = {"Ceil": ops.ceil, "Floor": ops.floor, "Round": ops.round}


def _declare_unary(name: str, op: Callable[[Any], Tensor], compute: str) -> None:
    onnx_op(name, compute=compute)(lambda node, x: op(x))


for _name, _op in (_FLOAT_UNARY | _ROUNDING).items():
    _declare_unary(_name, _op, "float")
for _name, _op in _NUMBER_UNARY.items():
    _declare_unary(_name, _op, "number")


@onnx_op("Relu", compute="number")
def relu(node: Node, x: Tensor) -> Tensor:
    """max(x, 0)."""
    return ops.relu(x) if is_float(x) else ops.maximum(x, 0)


@onnx_op("Asinh", compute="float")
def asinh(node: Node, x: Tensor) -> Tensor:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x."""
    a = ops.abs(x)
    return ops.sign(x) * ops.log1p(a + ops.square(x) / (1.0 + ops.sqrt(ops.square(x) + 1.0)))


@onnx_op("Acosh", compute="float")
def acosh(node: Node, x: Tensor) -> Tensor:
    """log(x + sqrt(x^2 - 1))."""
    return ops.log(x + ops.sqrt((x - 1.0) * (x + 1.0)))


@onnx_op("Atanh", compute="float")
def atanh(node: Node, x: Tensor) -> Tensor:
    """(log(1 + x) - log(1 - x)) / 2."""
    return (ops.log1p(x) - ops.log1p(-x)) * 0.5


@onnx_op("LeakyRelu", compute="float")
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    """x or alpha * x."""
    return ops.leaky_relu(x, slope=node.attr("alpha", 0.01))


@onnx_op("ThresholdedRelu", compute="float")
def thresholded_relu(node: Node, x: Tensor) -> Tensor:
    """x above alpha, else 0."""
    return ops.where(ops.greater(x, node.attr("alpha", 1.0)), x, like(x, 0))


@onnx_op("Elu", compute="float")
def elu(node: Node, x: Tensor) -> Tensor:
    """x or alpha * (e^x - 1)."""
    return ops.elu(x, alpha=node.attr("alpha", 1.0))


@onnx_op("Selu", compute="float")
def selu(node: Node, x: Tensor) -> Tensor:
    """gamma * (x or alpha * (e^x - 1))."""
    alpha, gamma = node.attr("alpha", 1.67326319217681884765625), node.attr("gamma", 1.05070102214813232421875)
    return ops.elu(x, alpha=alpha) * gamma


@onnx_op("Celu", compute="float")
def celu(node: Node, x: Tensor) -> Tensor:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1))."""
    alpha = node.attr("alpha", 1.0)
    return ops.where(ops.greater(x, 0.0), x, ops.expm1(x / alpha) * alpha)


@onnx_op("HardSigmoid", compute="float")
def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    """max(0, min(1, alpha * x + beta))."""
    return ops.clip(x * node.attr("alpha", 0.2) + node.attr("beta", 0.5), min=0.0, max=1.0)


@onnx_op("Gelu", compute="float")
def gelu(node: Node, x: Tensor) -> Tensor:
    """x * P(X <= x), exactly or by tanh."""
    return ops.gelu(x, approximate=node.attr("approximate", "none") == "tanh")


@onnx_op("Swish", compute="float")
def swish(node: Node, x: Tensor) -> Tensor:
    """x * sigmoid(alpha * x)."""
    alpha = node.attr("alpha", 1.0)
    return ops.silu(x) if alpha == 1.0 else x * ops.sigmoid(x * alpha)


@onnx_op("Shrink", compute="number")
def shrink(node: Node, x: Tensor) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    lambd, bias = node.attr("lambd", 0.5), node.attr("bias", 0.0)
    f = x if is_float(x) else ops.cast(x, dtype="float64")
    y = ops.where(ops.less(f, -lambd), f + bias, ops.where(ops.greater(f, lambd), f - bias, like(f, 0)))
    return ops.cast(y, dtype=x.dtype)


@onnx_op("PRelu", compute="number")
def prelu_1(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """One slope, or one a channel."""
    return prelu(node, x, per_channel(slope, x.ndim) if slope.ndim == 1 and x.ndim > 2 else slope)


@onnx_op("PRelu", since=7, compute="number")
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """x or slope * x, slope broadcast to x."""
    return ops.where(ops.less(x, 0), x * slope, x)


def _cut(x: Tensor, least: float, most: float) -> Tensor:
    """x within limits; those of relu and relu6 become these, which convolutions end in."""
    if is_float(x) and least == 0.0 and most in (6.0, np.inf):
        return ops.relu6(x) if most == 6.0 else ops.relu(x)
    return ops.clip(x, min=least, max=most)


@onnx_op("Clip", compute="number")
def clip_6(node: Node, x: Tensor) -> Tensor:
    """Limits as attributes."""
    return _cut(x, node.attr("min", -np.inf), node.attr("max", np.inf))


@onnx_op("Clip", since=11, compute="number")
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Limits as inputs."""
    known = all(v is None or not v.is_traced for v in (low, high))
    if known and (is_float(x) or (low is None and high is None)):
        least = float("-inf") if low is None else float(node.host(low, "min"))
        most = float("inf") if high is None else float(node.host(high, "max"))
        if least <= most:
            return _cut(x, least, most)
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


# -- two inputs
def _aligned(node: Node, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Old versions say where b's axes lie in a."""
    if node.version < 7 and node.attr("broadcast") and "axis" in node.attributes:
        after = a.ndim - node.attr("axis") % max(a.ndim, 1) - b.ndim
        b = ops.reshape(b, shape=[*(0 for _ in range(b.ndim)), *(1 for _ in range(after))])
    return a, b


@onnx_op("Add", compute="number")
def add(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a + b."""
    return ops.add(*_aligned(node, a, b))


@onnx_op("Sub", compute="number")
def sub(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a - b."""
    return ops.sub(*_aligned(node, a, b))


@onnx_op("Mul", compute="number")
def mul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a * b."""
    return ops.mul(*_aligned(node, a, b))


@onnx_op("Div", compute="number")
def div(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a / b; whole numbers round towards 0."""
    a, b = _aligned(node, a, b)
    if is_float(a):
        return ops.div(a, b)
    return ops.sign(a) * ops.sign(b) * ops.floor_div(ops.abs(a), ops.abs(b))


@onnx_op("Mod", compute="number")
def mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The remainder with the sign of b, or with the sign of a (fmod)."""
    if not node.attr("fmod", 0):
        return ops.mod(a, b)
    remainder = ops.mod(ops.abs(a), ops.abs(b))
    return ops.where(ops.less(a, 0), -remainder, remainder)


@onnx_op("Pow", compute="float")
def power(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a to the power b, in a's type."""
    a, b = _aligned(node, a, b)
    dtype = a.dtype
    wide = dtype if is_float(a) else "float64"
    return ops.cast(ops.pow(ops.cast(a, dtype=wide), ops.cast(b, dtype=wide)), dtype=dtype)


def _folded(name: str, op: Callable[[Any, Any], Tensor], mean: bool = False) -> None:
    def convert(node: Node, *xs: Tensor) -> Tensor:
        total = functools.reduce(op, xs)
        return total / float(len(xs)) if mean else total

    onnx_op(name, compute="number")(convert)


_folded("Sum", ops.add)
_folded("Mean", ops.add, mean=True)
_folded("Max", ops.maximum)
_folded("Min", ops.minimum)


@onnx_op("Dropout")
def dropout_1(node: Node, x: Tensor) -> Any:
    """The identity: files from before version 12 hold models that are done training."""
    return (x, ops.cast(constant(np.ones(1)) * 1.0, dtype="bool")) if node.wants(1) else x


@onnx_op("Dropout", since=12)
def dropout(node: Node, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> Any:
    """The identity unless training mode is asked for, with some other ratio than 0."""
    p = 0.5 if ratio is None else float(node.host(ratio, "ratio"))
    if training is not None and bool(node.host(training, "training mode")) and p > 0:
        raise node.fail("dropout in training mode draws random numbers, which ONNX does not define; export for use")
    mask = ops.equal(ops.full_like(x, value=1.0), ops.full_like(x, value=1.0)) if node.wants(1) else None
    return (x, mask) if mask is not None else x
