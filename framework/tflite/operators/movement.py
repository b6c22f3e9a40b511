"""Operators that move elements to other places. 8-bit numbers stay what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, one, steps_of, to_tensor
from framework.tflite.operators.common import activated, axis_of, shape_of
from framework.tflite.registry import tflite_op


@tflite_op("RESHAPE", eight="moves")
def reshape(node: Node, x: Tensor, shape: Tensor | None = None) -> Tensor:
    """To the shape of a constant, of the options, or that which the file states for the result."""
    if shape is not None and not shape.is_traced:
        wanted = node.ints(shape, "shape")
    elif "new_shape" in node.options:
        wanted = list(node.options["new_shape"])
    else:
        stated = node.y[0].shape
        if any(d is None for d in stated):
            raise node.fail("its shape is computed from the data of an input; only a constant is taken")
        wanted = [d or 0 for d in stated]
    if wanted == [0] and x.size == 1:  # older converters write a scalar so
        wanted = []
    return ops.reshape(x, shape=_with_batch(x, wanted))


def _with_batch(x: Tensor, wanted: list[int]) -> list[int]:
    """The shape with the first axis left open where the image has more than one row and the file states one."""
    shape = shape_of(x)
    size = math.prod(shape)
    if -1 not in wanted and wanted[:1] == [1] and shape and math.prod(wanted) * shape[0] == size and shape[0] > 1:
        return [-1, *wanted[1:]]
    return wanted


@tflite_op("SQUEEZE", eight="moves")
def squeeze(node: Node, x: Tensor) -> Tensor:
    """Without axes of one element: those named, or all."""
    named = node.options.get("squeeze_dims") or [a for a, d in enumerate(x.shape) if d == 1]
    for axis in sorted({axis_of(a, x.ndim) for a in named}, reverse=True):
        x = ops.squeeze(x, axis=axis)
    return x


@tflite_op("EXPAND_DIMS", eight="moves")
def expand_dims(node: Node, x: Tensor, axis: Tensor) -> Tensor:
    """With another axis of one element."""
    (at,) = node.ints(axis, "axis")
    return ops.expand_dims(x, axis=axis_of(at, x.ndim + 1))


@tflite_op("TRANSPOSE", eight="moves")
def transpose(node: Node, x: Tensor, perm: Tensor) -> Tensor:
    """Axes in another order."""
    return ops.transpose(x, perm=node.ints(perm, "order of axes"))


@tflite_op("CONCATENATION", eight="moves")
def concatenation(node: Node, *xs: Tensor) -> Tensor:
    """One array behind the other; 8-bit ones are brought to the steps of the result."""
    node.limit([sum(x.size for x in xs)])
    return activated(node, ops.concat(list(xs), axis=axis_of(node.option("axis"), xs[0].ndim)))


@tflite_op("PACK", eight="moves")
def pack(node: Node, *xs: Tensor) -> Tensor:
    """Arrays of one shape along a new axis."""
    node.limit([sum(x.size for x in xs)])
    axis = axis_of(node.option("axis"), xs[0].ndim + 1)
    return ops.concat([ops.expand_dims(x, axis=axis) for x in xs], axis=axis)


@tflite_op("UNPACK", eight="moves")
def unpack(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    """Parts along an axis, which goes."""
    axis = axis_of(node.option("axis"), x.ndim)
    count = shape_of(x)[axis]
    if count != len(node.y):
        raise node.fail(f"gives {len(node.y)} parts of {count}")
    return tuple(ops.squeeze(part, axis=axis) for part in ops.split(x, axis=axis, sizes=[1] * count))


@tflite_op("SPLIT", eight="moves")
def split(node: Node, axis: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    """As many equal parts as there are results."""
    (at,) = node.ints(axis, "axis")
    at = axis_of(at, x.ndim)
    extent, parts = shape_of(x)[at], len(node.y)
    if not parts or extent % parts:
        raise node.fail(f"{extent} does not go into {parts} equal parts")
    return tuple(ops.split(x, axis=at, sizes=[extent // parts] * parts))


@tflite_op("SPLIT_V", eight="moves")
def split_v(node: Node, x: Tensor, sizes: Tensor, axis: Tensor) -> tuple[Tensor, ...]:
    """Parts of the sizes given; -1 is the rest."""
    (at,) = node.ints(axis, "axis")
    at = axis_of(at, x.ndim)
    found = node.ints(sizes, "sizes")
    if found.count(-1) == 1:
        found[found.index(-1)] = shape_of(x)[at] - sum(s for s in found if s >= 0)
    return tuple(ops.split(x, axis=at, sizes=found))


@tflite_op("SLICE", eight="moves")
def slice_(node: Node, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """From `begin`, `size` elements along each axis; -1 is all."""
    starts, sizes = node.ints(begin, "begin"), node.ints(size, "size")
    if not len(starts) == len(sizes) == x.ndim or any(s < 0 for s in starts) or any(s < -1 for s in sizes):
        raise node.fail(f"from {starts}, {sizes} elements of {list(shape_of(x))}")
    ends = [2**31 - 1 if n < 0 else s + n for s, n in zip(starts, sizes, strict=True)]
    if any(e > d and n >= 0 for e, d, n in zip(ends, shape_of(x), sizes, strict=True)):
        raise node.fail(f"from {starts}, {sizes} elements of {list(shape_of(x))}")
    return ops.slice(x, starts=starts, ends=ends, axes=list(range(x.ndim)))


@tflite_op("STRIDED_SLICE", eight="moves")
def strided_slice(node: Node, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    """NumPy's x[begin:end:stride] along each axis, with masks; new axes and an ellipsis are not taken."""
    if node.option("ellipsis") or node.option("new_axis"):
        raise node.fail("an ellipsis or a new axis in a slice is not supported")
    starts, ends, steps = (node.ints(t, what) for t, what in ((begin, "begin"), (end, "end"), (strides, "strides")))
    starts, ends, gone = list(starts), list(ends), []
    for i, step in enumerate(steps):
        if node.option("shrink_axis") >> i & 1:
            gone.append(i)
            ends[i] = starts[i] + 1 if starts[i] != -1 else 2**31 - 1
            steps[i] = 1
            continue
        if node.option("begin") >> i & 1:
            starts[i] = 0 if step > 0 else 2**31 - 1
        if node.option("end") >> i & 1:
            ends[i] = 2**31 - 1 if step > 0 else -(2**31)
    y = ops.slice(x, starts=starts, ends=ends, axes=list(range(len(steps))), steps=steps)
    for axis in reversed(gone):
        y = ops.squeeze(y, axis=axis)
    return y


@tflite_op("PAD", "PADV2", eight="moves")
def pad(node: Node, x: Tensor, pads: Tensor, value: Tensor | None = None) -> Tensor:
    """With more elements before and after: zeros, which 8 bits have as their zero point, or `value`."""
    counts = _pads(node, x, pads)
    fill: float = 0.0
    if value is not None:
        fill = float(node.host(value, "value").reshape(-1)[0])
    elif steps_of(node.x[0]) is not None:
        fill = float(one(node, node.y[0])[1])
    return ops.pad(x, pads=counts, value=fill)


@tflite_op("MIRROR_PAD", eight="moves")
def mirror_pad(node: Node, x: Tensor, pads: Tensor) -> Tensor:
    """Mirrored at the edge, which is not repeated."""
    if node.option("mode") != 0:
        raise node.fail("mirrors that repeat the edge (SYMMETRIC) are not supported")
    return ops.pad(x, pads=_pads(node, x, pads), mode="reflect")


def _pads(node: Node, x: Tensor, pads: Tensor) -> list[int]:
    counts = node.ints(pads, "padding")
    if len(counts) != 2 * x.ndim or any(c < 0 for c in counts):
        raise node.fail(f"pads {list(shape_of(x))} by {counts}")
    node.limit([d + a + b for d, a, b in zip(shape_of(x), counts[::2], counts[1::2], strict=True)])
    return counts


@tflite_op("TILE", eight="moves")
def tile(node: Node, x: Tensor, repeats: Tensor) -> Tensor:
    """Repeated along each axis."""
    counts = node.ints(repeats, "repeats")
    if len(counts) != x.ndim:
        raise node.fail(f"repeats {list(shape_of(x))} {counts} times")
    node.limit([d * n for d, n in zip(shape_of(x), counts, strict=True)])
    return ops.tile(x, repeats=counts)


@tflite_op("BROADCAST_TO", eight="moves")
def broadcast_to(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """To a shape, by NumPy's rule."""
    return ops.broadcast_to(x, shape=node.limit(node.ints(shape, "shape")))


@tflite_op("GATHER", eight="moves")
def gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Slices along an axis by their numbers."""
    if node.option("batch_dims"):
        raise node.fail("batches of indices are not supported")
    axis = axis_of(node.option("axis"), x.ndim)
    shape = shape_of(x)
    node.limit([*shape[:axis], *shape_of(indices), *shape[axis + 1 :]])
    return ops.gather(x, ops.cast(indices, dtype="int64"), axis=axis)


@tflite_op("EMBEDDING_LOOKUP", eight="own")
def embedding_lookup(node: Node, ids: Tensor, table: Tensor) -> Tensor:
    """Rows of a table by their numbers."""
    if steps_of(node.x[1]) is not None:
        raise node.fail("tables of 8 bits are not supported")
    node.limit([*shape_of(ids), *shape_of(table)[1:]])
    return ops.gather(table, ops.cast(ids, dtype="int64"), axis=0)


@tflite_op("GATHER_ND", eight="moves")
def gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    """Elements, or slices, by places along the first axes."""
    depth = shape_of(indices)[-1]
    node.limit([*shape_of(indices)[:-1], *shape_of(x)[depth:]])
    return ops.gather_nd(x, ops.cast(indices, dtype="int64"))


@tflite_op("DEPTH_TO_SPACE", eight="moves")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    """[N, H, W, b * b * C] -> [N, H * b, W * b, C]; the block's row and column stand before the channel."""
    b = _block(node)
    n, h, w, c = x.shape
    if c % (b * b):
        raise node.fail(f"{c} channels do not go into blocks of {b} x {b}")
    y = ops.reshape(x, shape=[n, h, w, b, b, c // (b * b)])
    return ops.reshape(ops.transpose(y, perm=[0, 1, 3, 2, 4, 5]), shape=[n, h * b, w * b, c // (b * b)])


@tflite_op("SPACE_TO_DEPTH", eight="moves")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    """[N, H * b, W * b, C] -> [N, H, W, b * b * C]."""
    b = _block(node)
    n, h, w, c = x.shape
    if h % b or w % b:
        raise node.fail(f"{h} x {w} pixels do not go into blocks of {b} x {b}")
    y = ops.reshape(x, shape=[n, h // b, b, w // b, b, c])
    return ops.reshape(ops.transpose(y, perm=[0, 1, 3, 2, 4, 5]), shape=[n, h // b, w // b, b * b * c])


def _block(node: Node) -> int:
    b = int(node.option("block_size"))
    if not 1 <= b <= 1024:
        raise node.fail(f"has blocks of {b} pixels")
    return b


@tflite_op("SPACE_TO_BATCH_ND", eight="moves")
def space_to_batch(node: Node, x: Tensor, block: Tensor, pads: Tensor) -> Tensor:
    """[N, H * a, W * b, C] -> [a * b * N, H, W, C] after padding, as dilated convolutions of old files have it."""
    blocks = _blocks(node, block, x)
    rest = x.ndim - 1 - len(blocks)
    counts = [0, 0, *node.ints(pads, "padding"), *[0, 0] * rest]
    node.limit([d + a + b for d, a, b in zip(shape_of(x), counts[::2], counts[1::2], strict=True)])
    fill = float(one(node, node.y[0])[1]) if steps_of(node.x[0]) is not None else 0.0
    x = ops.pad(x, pads=counts, value=fill)
    n, *extents = x.shape
    shape, inner = [n], []
    for extent, b in zip(extents, blocks, strict=False):
        if extent % b:
            raise node.fail(f"{extent} pixels do not go into blocks of {b}")
        inner.append(len(shape) + 1)
        shape += [extent // b, b]
    tail = extents[len(blocks) :]
    shape += tail
    perm = [*inner, 0, *(i - 1 for i in inner), *range(len(shape) - len(tail), len(shape))]
    y = ops.transpose(ops.reshape(x, shape=shape), perm=perm)
    return ops.reshape(y, shape=[-1, *(e // b for e, b in zip(extents, blocks, strict=False)), *tail])


@tflite_op("BATCH_TO_SPACE_ND", eight="moves")
def batch_to_space(node: Node, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    """The way back from SPACE_TO_BATCH_ND, cut afterwards."""
    blocks = _blocks(node, block, x)
    cuts = node.ints(crops, "crops")
    n, *extents = x.shape
    if n % math.prod(blocks) or len(cuts) != 2 * len(blocks) or any(c < 0 for c in cuts):
        raise node.fail(f"{n} images do not go into blocks of {blocks} with crops {cuts}")
    m, tail = len(blocks), extents[len(blocks) :]
    y = ops.reshape(x, shape=[*blocks, n // math.prod(blocks), *extents])
    perm = [m, *(place for i in range(m) for place in (m + 1 + i, i)), *range(2 * m + 1, 2 * m + 1 + len(tail))]
    whole = [e * b for e, b in zip(extents, blocks, strict=False)]
    y = ops.reshape(ops.transpose(y, perm=perm), shape=[-1, *whole, *tail])
    ends = [size - after for size, after in zip(whole, cuts[1::2], strict=True)]
    return ops.slice(y, starts=list(cuts[::2]), ends=ends, axes=list(range(1, m + 1)))


def _blocks(node: Node, block: Tensor, x: Tensor) -> list[int]:
    blocks = node.ints(block, "block")
    if not 1 <= len(blocks) < x.ndim or any(not 1 <= b <= 1024 for b in blocks):
        raise node.fail(f"has blocks of {blocks} over {list(shape_of(x))}")
    return blocks


@tflite_op("REVERSE_V2", eight="moves")
def reverse(node: Node, x: Tensor, axes: Tensor) -> Tensor:
    """Backwards along some axes."""
    return ops.flip(x, axes=[axis_of(a, x.ndim) for a in node.ints(axes, "axes")])


@tflite_op("SHAPE", eight="own")
def shape(node: Node, x: Tensor) -> Tensor:
    """The shape, which ties a Program to it."""
    return _constant(node, x.shape)


@tflite_op("RANK", eight="own")
def rank(node: Node, x: Tensor) -> Tensor:
    """How many axes x has."""
    return _constant(node, x.ndim)


@tflite_op("FILL", eight="own")
def fill(node: Node, shape: Tensor, value: Tensor) -> Tensor:
    """One number all over."""
    return ops.broadcast_to(value, shape=node.limit(node.ints(shape, "shape")))


@tflite_op("RANGE", eight="own")
def range_(node: Node, start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    """Numbers from `start` on, before `end`."""
    a, b, c = (node.host(t, "bounds").reshape(-1)[0] for t in (start, end, step))
    if c == 0 or not np.isfinite([a, b, c]).all():
        raise node.fail(f"goes from {a} to {b} in steps of {c}")
    node.limit([max(0, math.ceil((float(b) - float(a)) / float(c)))])
    return _constant(node, np.arange(a, b, c))


def _constant(node: Node, values: Sequence[int] | np.ndarray | int) -> Tensor:
    return to_tensor(np.asarray(values, dtype=node.y[0].dtype))


@tflite_op("ONE_HOT", eight="own")
def one_hot(node: Node, ids: Tensor, depth: Tensor, on: Tensor, off: Tensor) -> Tensor:
    """`on` at each number's place, else `off`; numbers outside have none."""
    (count,) = node.ints(depth, "depth")
    axis = node.option("axis")
    at = axis_of(ids.ndim if axis == -1 else axis, ids.ndim + 1)
    node.limit([*shape_of(ids), count])
    places = to_tensor(np.arange(count).reshape(-1, *(1 for _ in range(ids.ndim - at))))
    return ops.where(ops.equal(ops.expand_dims(ops.cast(ids, dtype="int64"), axis=at), places), on, off)
