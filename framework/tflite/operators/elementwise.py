"""Operators that compute element by element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, to_tensor
from framework.tflite.operators.common import activated, by_name, joined, shape_of
from framework.tflite.registry import tflite_op

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "ABS": ops.abs,
    "CEIL": ops.ceil,
    "COS": ops.cos,
    "ELU": ops.elu,
    "EXP": ops.exp,
    "FLOOR": ops.floor,
    "HARD_SWISH": ops.hardswish,
    "LOG": ops.log,
    "LOGICAL_NOT": ops.logical_not,
    "LOGISTIC": ops.sigmoid,
    "NEG": ops.neg,
    "ROUND": ops.round,
    "RSQRT": ops.rsqrt,
    "SIGN": ops.sign,
    "SIN": ops.sin,
    "SQRT": ops.sqrt,
    "SQUARE": ops.square,
    "TANH": ops.tanh,
    "ZEROS_LIKE": lambda x: ops.full_like(x, value=0.0),
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ATAN2": ops.atan2,
    "FLOOR_DIV": ops.floor_div,
    "FLOOR_MOD": ops.mod,
    "POW": ops.pow,
    "MAXIMUM": ops.maximum,
    "MINIMUM": ops.minimum,
    "EQUAL": ops.equal,
    "NOT_EQUAL": ops.not_equal,
    "GREATER": ops.greater,
    "GREATER_EQUAL": ops.greater_equal,
    "LESS": ops.less,
    "LESS_EQUAL": ops.less_equal,
    "LOGICAL_AND": ops.logical_and,
    "LOGICAL_OR": ops.logical_or,
    "SQUARED_DIFFERENCE": lambda a, b: ops.square(a - b),
}


def _unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    @tflite_op(name)
    def convert(node: Node, x: Tensor) -> Tensor:
        return function(x)


def _binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @tflite_op(name)
    def convert(node: Node, a: Tensor, b: Tensor) -> Tensor:
        joined(node, a, b)
        return activated(node, function(a, b))


for _name, _function in _UNARY.items():
    _unary(_name, _function)
for _name, _pair in _BINARY.items():
    _binary(_name, _pair)


@tflite_op("DIV")
def divide(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a / b; of whole numbers towards 0."""
    joined(node, a, b)
    if a.dtype in ("float32", "float64"):
        return activated(node, a / b)
    wide = ops.trunc(ops.cast(a, dtype="float64") / ops.cast(b, dtype="float64"))
    return activated(node, ops.cast(wide, dtype=a.dtype))


@tflite_op("RELU", "RELU6", "RELU_N1_TO_1")
def rectified(node: Node, x: Tensor) -> Tensor:
    """Cut at 0, at 0 and 6, or at -1 and 1."""
    return by_name(x, node.op)


@tflite_op("RELU_0_TO_1")
def relu_0_to_1(node: Node, x: Tensor) -> Tensor:
    """Cut at 0 and 1."""
    return ops.clip(x, min=0.0, max=1.0)


@tflite_op("LEAKY_RELU")
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    """x where it is above 0, else x * alpha."""
    return ops.leaky_relu(x, slope=float(node.option("alpha")))


@tflite_op("GELU")
def gelu(node: Node, x: Tensor) -> Tensor:
    """x times the normal distribution's share below it."""
    return ops.gelu(x, approximate=bool(node.option("approximate")))


@tflite_op("PRELU")
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """x where it is above 0, else x * slope, which broadcasts to x: [1, 1, C] for one a channel."""
    joined(node, x, slope)
    shape = shape_of(slope)
    if x.ndim > 1 and shape[-1:] == shape_of(x)[-1:] and slope.size == shape[-1]:
        return ops.prelu(x, ops.reshape(slope, shape=[-1]))
    return ops.relu(x) - slope * ops.relu(-x)


@tflite_op("ADD_N")
def add_n(node: Node, first: Tensor, *others: Tensor) -> Tensor:
    """The sum of arrays of one shape."""
    for x in others:
        if shape_of(x) != shape_of(first):
            raise node.fail(f"adds {list(shape_of(first))} and {list(shape_of(x))}; it takes one shape alone")
        first = first + x
    return first


@tflite_op("SELECT", "SELECT_V2")
def select(node: Node, cond: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where cond is true, else b; SELECT takes a vector that says so of whole rows."""
    if node.op == "SELECT" and cond.ndim == 1 and a.ndim > 1:
        cond = ops.reshape(cond, shape=[-1, *(1 for _ in range(a.ndim - 1))])
    joined(node, cond, a, b)
    return ops.where(cond, a, b)


@tflite_op("CAST", eight="own")
def cast(node: Node, x: Tensor) -> Tensor:
    """The integers or numbers in another type, fractions cut off."""
    to = str(node.y[0].dtype)
    return ops.cast(ops.trunc(x), dtype=to) if x.dtype == "float32" and "int" in to else ops.cast(x, dtype=to)


@tflite_op("QUANTIZE", "DEQUANTIZE")
def rounded(node: Node, x: Tensor) -> Tensor:
    """To 8 bits, from 8 bits, from half precision, or from one range to another."""
    if x.dtype == "float16":
        x = ops.cast(x, dtype="float32")
    if x.dtype != "float32":
        raise node.fail(f"reads {x.dtype} without a scale")
    return x


@tflite_op("DENSIFY", eight="own")
def densify(node: Node, x: Tensor) -> Tensor:
    """Sparse constants are dense from the reader on."""
    return x


@tflite_op("SOFTMAX")
def softmax(node: Node, x: Tensor) -> Tensor:
    """Along the last axis, of beta * x."""
    beta = float(node.option("beta"))
    return ops.softmax(x if beta == 1.0 else x * beta, axis=-1)


@tflite_op("LOG_SOFTMAX")
def log_softmax(node: Node, x: Tensor) -> Tensor:
    """Along the last axis."""
    return ops.log_softmax(x, axis=-1)


@tflite_op("L2_NORMALIZATION")
def l2_normalization(node: Node, x: Tensor) -> Tensor:
    """x over the length of its vectors along the last axis."""
    length = ops.sqrt(ops.sum(ops.square(x), axes=[x.ndim - 1], keepdims=True))
    return activated(node, x / ops.maximum(length, to_tensor(np.float32(1e-6))))
