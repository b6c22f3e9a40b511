"""Operators that draw axes together, or look along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, steps_of
from framework.tflite.operators.common import axes_of, axis_of, shape_of
from framework.tflite.registry import tflite_op

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "MEAN": ops.mean,
    "SUM": ops.sum,
    "REDUCE_MAX": ops.max,
    "REDUCE_MIN": ops.min,
    "REDUCE_PROD": ops.prod,
    "REDUCE_ANY": ops.any,
    "REDUCE_ALL": ops.all,
}


@tflite_op(*_REDUCTIONS)
def reduce(node: Node, x: Tensor, axes: Tensor) -> Tensor:
    """Over the axes of a constant; none are all."""
    found = axes_of(node.ints(axes, "axes"), x.ndim)
    if not found:
        return x
    return _REDUCTIONS[node.op](x, axes=found, keepdims=bool(node.option("keep_dims")))


@tflite_op("ARG_MAX", "ARG_MIN", eight="own")
def arg(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """The first place of the largest or smallest number along an axis."""
    (at,) = node.ints(axis, "axis")
    if steps_of(node.x[0]) is not None:
        x = ops.cast(x, dtype="float32")
    found = (ops.argmax if node.op == "ARG_MAX" else ops.argmin)(x, axis=axis_of(at, x.ndim))
    return ops.cast(found, dtype=str(node.y[0].dtype))


@tflite_op("CUMSUM")
def cumsum(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """Sums up to each element along an axis."""
    (at,) = node.ints(axis, "axis")
    y = ops.cumsum(x, axis=axis_of(at, x.ndim), reverse=bool(node.option("reverse")))
    return y - x if node.option("exclusive") else y


@tflite_op("TOPK_V2")
def topk(node: Node, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """The k largest numbers along the last axis, and their places."""
    (count,) = node.ints(k, "k")
    node.limit([*shape_of(x)[:-1], count])
    values, places = ops.topk(x, k=count)
    return values, ops.cast(places, dtype="int32")
