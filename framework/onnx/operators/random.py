"""Random numbers of ONNX: drawn by the core's counter-based generator from the node's seed, each call the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.casts import element_type
from framework.onnx.operators.common import constant, extents
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


def _key(node: Node) -> Tensor:
    seed = int(np.float32(node.attr("seed", 0.0)).view(np.int32))
    return constant(np.array([seed, 0]), "int64")


def _drawn(node: Node, shape: Any, dtype: str) -> Tensor:
    wide = "float64" if dtype == "float64" else "float32"
    shape = node.limit(shape)
    if node.op.startswith("RandomNormal"):
        y = ops.random_normal(
            _key(node), shape=shape, mean=node.attr("mean", 0.0), std=node.attr("scale", 1.0), dtype=wide
        )
    else:
        y = ops.random_uniform(
            _key(node), shape=shape, low=node.attr("low", 0.0), high=node.attr("high", 1.0), dtype=wide
        )
    return ops.cast(y, dtype=dtype)


@onnx_op("RandomUniform", "RandomNormal")
def random(node: Node) -> Tensor:
    """Of a given shape."""
    return _drawn(node, node.attr("shape"), element_type(node, node.attr("dtype", 1)))


@onnx_op("RandomUniformLike", "RandomNormalLike")
def random_like(node: Node, x: Tensor) -> Tensor:
    """Of x's shape."""
    dtype = element_type(node, node.attr("dtype")) if "dtype" in node.attributes else x.dtype
    return _drawn(node, extents(x), dtype)


@onnx_op("Bernoulli", since=15)
def bernoulli(node: Node, p: Tensor) -> Tensor:
    """1 with probability p."""
    dtype = element_type(node, node.attr("dtype")) if "dtype" in node.attributes else p.dtype
    wide = ops.cast(p, dtype="float32")
    drawn = ops.random_uniform(_key(node), shape=node.limit(extents(p)), low=0.0, high=1.0, dtype="float32")
    return ops.cast(ops.less(drawn, wide), dtype=dtype)
