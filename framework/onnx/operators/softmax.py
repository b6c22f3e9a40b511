"""Softmax and its kin."""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, extents
from framework.onnx.operators.shapes import flatten
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


def _hardmax(x: Tensor, axis: int) -> Tensor:
    first = ops.argmax(x, axis=axis)
    y = ops.one_hot(first, depth=extents(x)[axis], dtype=x.dtype)
    perm = list(range(x.ndim - 1))
    perm.insert(axis, x.ndim - 1)
    return ops.transpose(y, perm=perm)


def _declare(name: str, op: Any) -> None:
    @onnx_op(name, compute="float")
    def over_the_rest(node: Node, x: Tensor) -> Tensor:
        """Before version 13: over all axes from `axis` on."""
        return ops.reshape_like(op(flatten(node, x), axis=1), x)

    @onnx_op(name, since=13, compute="float")
    def over_one_axis(node: Node, x: Tensor) -> Tensor:
        return op(x, axis=axis_of(node.attr("axis", -1), x.ndim))


_declare("Softmax", ops.softmax)
_declare("LogSoftmax", ops.log_softmax)
_declare("Hardmax", _hardmax)
