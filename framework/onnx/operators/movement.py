"""Operators of ONNX that move elements: transpose, concat, split, slice, pad, depth to space and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

_FAR = 2**62


@onnx_op("Transpose")
def transpose(node: Node, x: Tensor) -> Tensor:
    """Axes in another order."""
    return ops.transpose(x, perm=node.attr("perm", []) or [])


@onnx_op("Concat")
def concat(node: Node, *xs: Tensor) -> Tensor:
    """Tensors joined along an axis."""
    return ops.concat(list(xs), axis=node.attr("axis", 1 if node.version < 4 else None))


@onnx_op("Split")
def split_1(node: Node, x: Tensor) -> Any:
    """The sizes are an attribute."""
    return _split(node, x, node.attr("split"))


@onnx_op("Split", since=13)
def split(node: Node, x: Tensor, sizes: Tensor | None = None) -> Any:
    """The sizes are an input, or equal parts with a shorter last one."""
    return _split(node, x, None if sizes is None else node.ints(sizes, "sizes"))


def _split(node: Node, x: Tensor, sizes: Sequence[int] | None) -> Any:
    axis = axis_of(node.attr("axis", 0), x.ndim)
    if sizes is None:
        parts = node.attr("num_outputs", len(node.outputs))
        sizes = equal_parts(extents(x)[axis], parts)
    return tuple(ops.split(x, axis=axis, sizes=list(sizes)))


def equal_parts(extent: int, parts: int) -> list[int]:
    """Sizes of `parts` parts, the last one the rest."""
    each = -(-extent // parts)
    return [min(each, max(0, extent - i * each)) for i in range(parts)]


@onnx_op("Slice")
def slice_1(node: Node, x: Tensor) -> Tensor:
    """The limits are attributes."""
    starts, ends = node.attr("starts"), node.attr("ends")
    return _sliced(x, starts, ends, node.attr("axes") or list(range(len(starts))), [1] * len(starts))


@onnx_op("Slice", since=10)
def slice_(
    node: Node, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    """The limits are inputs."""
    first = node.ints(starts, "starts")
    chosen = list(range(len(first))) if axes is None else node.ints(axes, "axes")
    by = [1] * len(first) if steps is None else node.ints(steps, "steps")
    return _sliced(x, first, node.ints(ends, "ends"), chosen, by)


def _sliced(x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Tensor:
    def near(numbers: Sequence[int]) -> list[int]:
        return [max(-_FAR, min(_FAR, int(n))) for n in numbers]

    if not axes:
        return x
    return ops.slice(x, starts=near(starts), ends=near(ends), axes=list(axes), steps=near(steps))


# -- padding
@onnx_op("Pad")
def pad_1(node: Node, x: Tensor) -> Tensor:
    """Pads as attribute."""
    return _pad(node, x, node.attr("pads") or node.attr("paddings"), node.attr("value", 0.0), list(range(x.ndim)))


@onnx_op("Pad", since=11)
def pad(node: Node, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    """Pads as input; negative ones cut."""
    fill = 0.0 if value is None or value.size == 0 else float(node.host(value, "value").reshape(-1)[0])
    chosen = list(range(x.ndim)) if axes is None else [axis_of(a, x.ndim) for a in node.ints(axes, "axes")]
    return _pad(node, x, node.ints(pads, "pads"), fill, chosen)


def _pad(node: Node, x: Tensor, pads: Sequence[int], value: float, axes: Sequence[int]) -> Tensor:
    mode = node.attr("mode", "constant")
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, a in enumerate(axes):
        before[a], after[a] = pads[i], pads[i + len(axes)]
    if any(p < 0 for p in [*before, *after]):
        x = _cut(x, before, after)
        before, after = [max(0, p) for p in before], [max(0, p) for p in after]
    if max([0, *before, *after]) > 2**20:
        node.limit([n + p + q for n, p, q in zip(extents(x), before, after, strict=True)])
    if not any(before) and not any(after):
        return x
    if mode == "wrap":
        return _wrapped(x, before, after)
    interleaved = [p for pair in zip(before, after, strict=True) for p in pair]
    return ops.pad(x, pads=interleaved, mode=mode, value=value)


def _cut(x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    starts = [max(0, -p) for p in before]
    ends = [-_neg if _neg > 0 else _FAR for _neg in (max(0, -p) for p in after)]
    return ops.slice(x, starts=starts, ends=ends)


def _wrapped(x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    for a, (p, q) in enumerate(zip(before, after, strict=True)):
        if p or q:
            n = extents(x)[a]
            x = ops.gather(x, constant(np.arange(-p, n + q) % n, "int64"), axis=a)
    return x


# -- blocks of pixels
@onnx_op("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    """[N, C * b * b, H, W] -> [N, C, H * b, W * b]."""
    b = node.attr("blocksize")
    n, c, h, w = extents(x)
    if node.attr("mode", "DCR") == "DCR":
        y = ops.transpose(ops.reshape(x, shape=[n, b, b, c // (b * b), h, w]), perm=[0, 3, 4, 1, 5, 2])
    else:
        y = ops.transpose(ops.reshape(x, shape=[n, c // (b * b), b, b, h, w]), perm=[0, 1, 4, 2, 5, 3])
    return ops.reshape(y, shape=[n, c // (b * b), h * b, w * b])


@onnx_op("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    """[N, C, H, W] -> [N, C * b * b, H / b, W / b]."""
    b = node.attr("blocksize")
    n, c, h, w = extents(x)
    blocks = ops.reshape(x, shape=[n, c, h // b, b, w // b, b])
    perm = [0, 1, 3, 5, 2, 4] if node.attr("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    y = ops.transpose(blocks, perm=perm)
    return ops.reshape(y, shape=[n, c * b * b, h // b, w // b])


@onnx_op("ReverseSequence")
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """The first `lengths[b]` steps of each sequence in reverse order."""
    return reversed_steps(x, lengths, time=node.attr("time_axis", 0), batch=node.attr("batch_axis", 1))


def reversed_steps(x: Tensor, lengths: Tensor, time: int, batch: int) -> Tensor:
    """Each sequence's own steps in reverse order, what follows them as it is; axes time and batch are 0 and 1."""
    steps, count = extents(x)[time], extents(x)[batch]
    t = constant(np.arange(steps).reshape(-1, 1), "int64")
    n = ops.reshape(ops.cast(lengths, dtype="int64"), shape=[1, count])
    order = ops.where(ops.less(t, n), n - 1 - t, ops.broadcast_to(t, shape=[steps, count]))
    shape = [steps, count]
    if (time, batch) == (1, 0):
        order, shape = ops.transpose(order), [count, steps]
    order = ops.reshape(order, shape=[*shape, *(1 for _ in range(x.ndim - 2))])
    return ops.take_along_axis(x, ops.broadcast_to(order, shape=list(extents(x))), axis=time)
