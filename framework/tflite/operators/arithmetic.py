"""Sums, differences and products; those of 8-bit numbers with integers alone, as TensorFlow Lite's reference has them.

Both terms of a sum are brought to steps of 2^-20 of twice the coarser one, then to the steps of the result.
"""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.ops import internal
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, dequantized, one, quantized, steps_of, to_tensor
from framework.tflite.operators.common import activated, joined, shape_of
from framework.tflite.operators.eight import all_eight, requantized
from framework.tflite.registry import tflite_op

_BITS = 20
_LOW, _HIGH = -(2**31), 2**31 - 1


@tflite_op("ADD", "SUB", "MUL", eight="own")
def arithmetic(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """a + b, a - b or a * b."""
    joined(node, a, b)
    if not all_eight(*node.x, *node.y):
        return _in_float(node, a, b)
    if node.op == "MUL":
        return _product(node, a, b)
    return _sum(node, a, b)


def _in_float(node: Node, a: Tensor, b: Tensor) -> Tensor:
    a, b = (dequantized(v, s) if (s := steps_of(t)) else v for v, t in zip((a, b), node.x, strict=True))
    y = activated(node, {"ADD": ops.add, "SUB": ops.sub, "MUL": ops.mul}[node.op](a, b))
    return quantized(node, y, node.y[0]) if steps_of(node.y[0]) is not None else y


def _sum(node: Node, a: Tensor, b: Tensor) -> Tensor:
    scales = [one(node, t)[0] for t in node.x]
    coarse = 2 * max(scales)
    y_scale, _ = one(node, node.y[0])
    terms = [
        internal.requantize(
            _rows(_centred(node, x, i) * (1 << _BITS)), _factor(scale / coarse), low=_LOW, high=_HIGH, dtype="int32"
        )
        for i, (x, scale) in enumerate(zip((a, b), scales, strict=True))
    ]
    first, second = (ops.reshape(t, shape=list(shape_of(x)) or []) for t, x in zip(terms, (a, b), strict=True))
    total = first + second if node.op == "ADD" else first - second
    return requantized(node, total, _factor(coarse / ((1 << _BITS) * y_scale)))


def _product(node: Node, a: Tensor, b: Tensor) -> Tensor:
    (a_scale, _), (b_scale, _), (y_scale, _) = (one(node, t) for t in (*node.x, *node.y))
    factor = np.float32(a_scale) * np.float32(b_scale) / np.float32(y_scale)  # so in the original
    return requantized(node, _centred(node, a, 0) * _centred(node, b, 1), _factor(float(factor)))


def _centred(node: Node, x: Tensor, place: int) -> Tensor:
    return ops.cast(x, dtype="int32") - to_tensor(np.int32(one(node, node.x[place])[1]))


def _rows(x: Tensor) -> Tensor:
    return ops.reshape(x, shape=[1]) if x.ndim == 0 else x


def _factor(value: float) -> Tensor:
    return to_tensor(np.array([value], np.float64))
