"""Operators of ONNX that change or tell a shape, and constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node, to_tensor, to_value
from framework.onnx.operators.casts import element_type
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("Constant")
def constant_node(node: Node) -> Tensor:
    """Data that stands in the file."""
    found = {k: v for k, v in node.attributes.items() if k.startswith("value") or k == "sparse_value"}
    if len(found) != 1:
        raise node.fail(f"holds {sorted(found)}; one of value, value_float, value_int, ... is needed")
    ((name, value),) = found.items()
    dtype = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
    return to_value(np.asarray(value, dtype=dtype.get(name)))


@onnx_op("ConstantOfShape")
def constant_of_shape(node: Node, shape: Tensor) -> Tensor:
    """One value all over."""
    value = np.asarray(node.attr("value", np.zeros(1, np.float32))).reshape(-1)
    wanted = node.limit(node.ints(shape, "shape"))
    return ops.broadcast_to(ops.reshape(to_tensor(value), shape=()), shape=wanted)


@onnx_op("Shape")
def shape_of(node: Node, x: Tensor) -> Tensor:
    """Extents of x, or of a range of its axes."""
    start, end = node.attr("start", 0), node.attr("end")
    return constant(extents(x)[start:end], "int64")


@onnx_op("Size")
def size_of(node: Node, x: Tensor) -> Tensor:
    """Number of elements."""
    return constant(int(np.prod(extents(x), dtype=np.int64)), "int64")


@onnx_op("Reshape")
def reshape_1(node: Node, x: Tensor) -> Tensor:
    """The shape is an attribute."""
    return _reshaped(x, node.attr("shape"))


@onnx_op("Reshape", since=5)
def reshape(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """The shape is an input; 0 keeps an extent unless allowzero says that it means 0."""
    wanted = node.ints(shape, "shape")
    if node.attr("allowzero", 0) and 0 in wanted:
        node.limit([d for d in wanted if d >= 0])
        return ops.reshape(ops.reshape(x, shape=[-1]), shape=wanted) if x.ndim == 0 else _with_zeros(x, wanted)
    return _reshaped(x, wanted)


def _reshaped(x: Tensor, wanted: Sequence[int]) -> Tensor:
    return ops.reshape(x, shape=list(wanted))


def _with_zeros(x: Tensor, wanted: Sequence[int]) -> Tensor:
    """A shape whose zeros are extents: x holds nothing then."""
    if int(np.prod(extents(x), dtype=np.int64)) != 0 or -1 in wanted:
        raise ValueError(f"x of shape {list(extents(x))} does not fit {list(wanted)}")
    return ops.full(shape=list(wanted), value=0.0, dtype=x.dtype)


@onnx_op("Flatten")
def flatten(node: Node, x: Tensor) -> Tensor:
    """Two axes: those before `axis` joined, and the rest."""
    axis = node.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if not 0 <= axis <= x.ndim:
        raise ValueError(f"axis {axis} of {x.ndim} axes")
    if axis == 0:
        return ops.expand_dims(ops.reshape(x, shape=[-1]), axis=0)
    if axis == x.ndim:
        return ops.expand_dims(ops.reshape(x, shape=[-1]), axis=1)
    y = ops.flatten(x, start=axis, end=-1)
    return ops.flatten(y, start=0, end=axis - 1)


@onnx_op("Squeeze")
def squeeze_1(node: Node, x: Tensor) -> Tensor:
    """The axes are an attribute."""
    return _squeezed(x, node.attr("axes"))


@onnx_op("Squeeze", since=13)
def squeeze(node: Node, x: Tensor, axes: Tensor | None = None) -> Tensor:
    """The axes are an input; none means all of extent 1."""
    return _squeezed(x, None if axes is None else node.ints(axes, "axes"))


def _squeezed(x: Tensor, axes: Sequence[int] | None) -> Tensor:
    if axes is None:
        axes = [a for a, n in enumerate(extents(x)) if n == 1]
    for a in sorted({axis_of(a, x.ndim) for a in axes}, reverse=True):
        x = ops.squeeze(x, axis=a)
    return x


@onnx_op("Unsqueeze")
def unsqueeze_1(node: Node, x: Tensor) -> Tensor:
    """The axes are an attribute."""
    return _unsqueezed(x, node.attr("axes"))


@onnx_op("Unsqueeze", since=13)
def unsqueeze(node: Node, x: Tensor, axes: Tensor) -> Tensor:
    """The axes are an input."""
    return _unsqueezed(x, node.ints(axes, "axes"))


def _unsqueezed(x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = x.ndim + len(axes)
    for a in sorted(axis_of(a, rank) for a in axes):
        x = ops.expand_dims(x, axis=a)
    return x


@onnx_op("Expand")
def expand(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """x broadcast with a shape, either way."""
    wanted = node.ints(shape, "shape")
    if all(n == 1 for n in wanted) and len(wanted) <= x.ndim:
        return x
    return ops.broadcast_to(x, shape=node.limit(np.broadcast_shapes(extents(x), tuple(wanted))))


@onnx_op("Tile", since=6)
def tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    """x repeated along each axis."""
    counts = node.ints(repeats, "repeats")
    node.limit([n * d for n, d in zip(extents(x), counts, strict=True)])
    return ops.tile(x, repeats=counts)


@onnx_op("Range")
def arange(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """start, start + delta, ... before limit."""
    first, stop, step = (node.host(v, "limits").reshape(()) for v in (start, limit, delta))
    if step == 0:
        raise node.fail("its step is 0")
    node.limit([max(0, int(np.ceil((float(stop) - float(first)) / float(step))))])
    if start.dtype in ("float16", "bfloat16"):
        y = ops.arange(start=float(first), stop=float(stop), step=float(step), dtype="float32")
        return ops.cast(y, dtype=start.dtype)
    return ops.arange(start=float(first), stop=float(stop), step=float(step), dtype=start.dtype)


@onnx_op("EyeLike")
def eye_like(node: Node, x: Tensor) -> Tensor:
    """Ones on a diagonal."""
    rows, columns = node.limit(extents(x))
    dtype = element_type(node, node.attr("dtype")) if "dtype" in node.attributes else x.dtype
    return ops.cast(constant(np.eye(rows, columns, node.attr("k", 0), dtype=np.float32)), dtype=dtype)


@onnx_op("Trilu", since=14)
def trilu(node: Node, x: Tensor, k: Tensor | None = None) -> Tensor:
    """The upper or lower triangle of matrices, 0 elsewhere."""
    shift = 0 if k is None else node.ints(k, "diagonal")[0]
    return (ops.triu if node.attr("upper", 1) else ops.tril)(x, k=shift)


def prod(numbers: Sequence[int]) -> int:
    """Product of whole numbers."""
    return int(np.prod(np.asarray(list(numbers), dtype=np.int64)))
