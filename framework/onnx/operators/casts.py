"""Changes of the element type."""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node, to_tensor
from framework.onnx.reading import ELEMENT_TYPES
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


def element_type(node: Node, number: int) -> str:
    """The core's name of an ONNX element type.

    Raises:
        NotSupportedError: the core lacks it.
    """
    if number not in ELEMENT_TYPES:
        raise node.fail(f"element type number {number} is not one the core has ({', '.join(ELEMENT_TYPES.values())})")
    return ELEMENT_TYPES[number]


@onnx_op("Cast")
def cast(node: Node, x: Tensor) -> Tensor:
    """x in another type."""
    to = node.attr("to")
    names = {"FLOAT": 1, "DOUBLE": 11, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10}
    return ops.cast(x, dtype=element_type(node, names.get(to, 0) if isinstance(to, str) else to))


@onnx_op("CastLike", since=15)
def cast_like(node: Node, x: Tensor, like: Tensor) -> Tensor:
    """x in the type of `like`."""
    return ops.cast(x, dtype=like.dtype)


@onnx_op("BitCast")
def bit_cast(node: Node, x: Tensor) -> Tensor:
    """The same bytes under another type of the same size."""
    dtype = element_type(node, node.attr("to"))
    if dtype == "bfloat16" or x.dtype == "bfloat16":
        raise node.fail("bfloat16 is not supported here")
    return to_tensor(np.array(node.host(x, "data")).view(np.dtype(dtype)))


@onnx_op("Identity")
def identity(node: Node, x: Tensor) -> Tensor:
    """x."""
    return x
