"""Reductions of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, extents, is_float
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

Reduction = Callable[[Tensor, Sequence[int], bool], Tensor]


def _sum(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return ops.cast(ops.sum(x, axes=axes, keepdims=keep), dtype=x.dtype)


def _mean(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if is_float(x):
        return ops.mean(x, axes=axes, keepdims=keep)
    return ops.cast(ops.mean(ops.cast(x, dtype="float64"), axes=axes, keepdims=keep), dtype=x.dtype)


def _prod(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return ops.cast(ops.prod(x, axes=axes, keepdims=keep), dtype=x.dtype)


def _in_floats(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
    """f in floats, whatever x's type."""
    return f(x) if is_float(x) else ops.cast(f(ops.cast(x, dtype="float64")), dtype=x.dtype)


def _extreme(op: Any, of_nothing: dict[str, float]) -> Reduction:
    def reduce(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        if any(x._value is None and extents(x)[a] == 0 for a in (axes or range(x.ndim))):
            chosen = set(axes or range(x.ndim))
            shape = [1 if a in chosen else n for a, n in enumerate(extents(x)) if keep or a not in chosen]
            return ops.full(shape=shape, value=of_nothing[x.dtype], dtype=x.dtype)
        if x.dtype == "bool":
            return ops.cast(op(ops.cast(x, dtype="uint8"), axes=axes, keepdims=keep), dtype="bool")
        return op(x, axes=axes, keepdims=keep)

    return reduce


def _limits(sign: float) -> dict[str, float]:
    floats = dict.fromkeys(("float32", "float64"), sign * np.inf)
    kind = np.iinfo
    ints = {t: float(kind(t).max if sign > 0 else kind(t).min) for t in ("int8", "uint8", "int32", "int64")}
    return floats | ints | {"bool": float(sign > 0)}


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _prod,
    "ReduceMax": _extreme(ops.max, _limits(-1)),
    "ReduceMin": _extreme(ops.min, _limits(1)),
    "ReduceL1": lambda x, axes, keep: _sum(ops.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: _in_floats(x, lambda f: ops.sqrt(_sum(ops.square(f), axes, keep))),
    "ReduceLogSum": lambda x, axes, keep: _in_floats(x, lambda f: ops.log(_sum(f, axes, keep))),
    "ReduceLogSumExp": lambda x, axes, keep: _in_floats(x, lambda f: _log_sum_exp(f, axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: _sum(ops.square(x), axes, keep),
}
# With no axes to reduce and noop_with_empty_axes, what the operator does to each element still happens.
_OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "ReduceL1": ops.abs,
    "ReduceL2": ops.abs,
    "ReduceLogSum": lambda x: _in_floats(x, ops.log),
    "ReduceSumSquare": ops.square,
}


def _log_sum_exp(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    if x._value is None and x.size == 0:
        return ops.log(_sum(x, axes, keep))
    return ops.logsumexp(x, axes=axes, keepdims=keep)


def _declare(name: str, reduction: Reduction, axes_are_input_since: int) -> None:
    def reduce(node: Node, x: Tensor, axes: Sequence[int] | None) -> Tensor:
        keep = bool(node.attr("keepdims", 1))
        if not axes:
            if node.attr("noop_with_empty_axes", 0):
                return _OF_ONE.get(name, lambda x: x)(x)
            axes = ()
        return reduction(x, [axis_of(a, x.ndim) for a in axes], keep)

    compute = "float" if name in ("ReduceMax", "ReduceMin") else "number"

    @onnx_op(name, compute=compute)
    def by_attribute(node: Node, x: Tensor) -> Tensor:
        return reduce(node, x, node.attr("axes"))

    @onnx_op(name, since=axes_are_input_since, compute=compute)
    def by_input(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
        return reduce(node, x, None if axes is None else node.ints(axes, "axes"))


for _name, _reduction in _REDUCTIONS.items():
    _declare(_name, _reduction, 13 if _name == "ReduceSum" else 18)


def _arg(name: str, op: Any) -> None:
    @onnx_op(name, compute="float")
    def convert(node: Node, x: Tensor) -> Tensor:
        axis = axis_of(node.attr("axis", 0), x.ndim)
        keep = bool(node.attr("keepdims", 1))
        if not node.attr("select_last_index", 0):
            return op(x, axis=axis, keepdims=keep)
        last = op(ops.flip(x, axes=[axis]), axis=axis, keepdims=keep)
        return extents(x)[axis] - 1 - last


_arg("ArgMax", ops.argmax)
_arg("ArgMin", ops.argmin)


@onnx_op("CumSum", compute="number")
def cumsum(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """Running sums, each with its element or without (exclusive)."""
    a, reverse = axis_of(node.ints(axis, "axis")[0], x.ndim), bool(node.attr("reverse", 0))
    y = ops.cumsum(x, axis=a, reverse=reverse)
    return y - x if node.attr("exclusive", 0) else y


@onnx_op("CumProd", since=26, compute="number")
def cumprod(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """Running products; exclusive ones are those of what is one place before."""
    a, reverse = axis_of(node.ints(axis, "axis")[0], x.ndim), bool(node.attr("reverse", 0))
    y = shifted(x, a, 1, reverse) if node.attr("exclusive", 0) else x
    return ops.cumprod(y, axis=a, reverse=reverse)


def shifted(x: Tensor, axis: int, by: int, back: bool) -> Tensor:
    """x moved along an axis, ones where nothing comes from."""
    pads = [0] * (2 * x.ndim)
    pads[2 * axis + back] = by
    padded = ops.pad(x, pads=pads, value=1.0)
    n = extents(x)[axis]
    start = by if back else 0
    return ops.slice(padded, starts=[start], ends=[start + n], axes=[axis])
