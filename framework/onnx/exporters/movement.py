"""What moves elements or changes shapes, as nodes of ONNX."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.writer import AXIS_IN_BACK, FAR, Writer, element_number, exports, nth, rank_of


@exports("transpose")
def transpose(w: Writer, op: Operation) -> None:
    """Transpose."""
    perm = [p % rank_of(op) for p in op.attr("perm")] or list(reversed(range(rank_of(op))))
    if not perm:
        w.set(op.outputs[0], w.get(nth(op)))
        return
    w.set(op.outputs[0], w.node("Transpose", [w.get(nth(op))], perm=perm))


@exports("concat")
def concat(w: Writer, op: Operation) -> None:
    """Concat, in the layout of the images."""
    xs, axis = [v for v in op.inputs if v is not None], int(op.attr("axis")) % rank_of(op)
    if all(w.is_image(v) for v in xs):
        w.set_image(op.outputs[0], w.node("Concat", [w.image(v) for v in xs], axis=AXIS_IN_BACK[axis]))
    else:
        w.set(op.outputs[0], w.node("Concat", [w.get(v) for v in xs], axis=axis))


@exports("split")
def split(w: Writer, op: Operation) -> None:
    """Split; an open size is a slice to the end."""
    sizes, axis = [int(s) for s in op.attr("sizes")], int(op.attr("axis")) % rank_of(op)
    image = w.is_image(nth(op))
    place = w.set_image if image else w.set
    name = w.image(nth(op)) if image else w.get(nth(op))
    axis = AXIS_IN_BACK[axis] if image else axis
    if -1 not in sizes:
        outs = w.nodes_out("Split", [name, w.ints(*sizes)], len(sizes), axis=axis)
    else:
        outs, free = [], sizes.index(-1)
        for i, size in enumerate(sizes):
            start = sum(sizes[:i]) if i <= free else -sum(sizes[i:])
            end = start + size if i < free or (i > free and start + size < 0) else FAR
            end = -sum(sizes[i + 1 :]) or FAR if i == free else end
            outs.append(w.node("Slice", [name, w.ints(start), w.ints(end), w.ints(axis)]))
    for v, out in zip(op.outputs, outs, strict=True):
        place(v, out)


@exports("slice")
def slice_(w: Writer, op: Operation) -> None:
    """Slice."""
    starts, ends = [int(v) for v in op.attr("starts")], [int(v) for v in op.attr("ends")]
    axes = [int(a) % rank_of(op) for a in op.attr("axes")] or list(range(len(starts)))
    steps = [int(v) for v in op.attr("steps")] or [1] * len(starts)
    image = w.is_image(nth(op))
    if image:
        axes = [AXIS_IN_BACK[a] for a in axes]
    name = w.image(nth(op)) if image else w.get(nth(op))
    out = w.node("Slice", [name, w.ints(*starts), w.ints(*ends), w.ints(*axes), w.ints(*steps)])
    (w.set_image if image else w.set)(op.outputs[0], out)


@exports("flip")
def flip(w: Writer, op: Operation) -> None:
    """Slice with steps of -1."""
    axes = sorted({int(a) % rank_of(op) for a in np.atleast_1d(op.attr("axes"))}) or list(range(rank_of(op)))
    n = len(axes)
    if not n:
        w.set(op.outputs[0], w.get(nth(op)))
        return
    limits = [w.ints(*[-1] * n), w.ints(*[-FAR] * n), w.ints(*axes), w.ints(*[-1] * n)]
    w.set(op.outputs[0], w.node("Slice", [w.get(nth(op)), *limits]))


@exports("pad")
def pad(w: Writer, op: Operation) -> None:
    """Pad."""
    pads, rank = [int(p) for p in op.attr("pads")], rank_of(op)
    image = w.is_image(nth(op))
    order = (0, 3, 1, 2) if image else range(rank)
    turned = [pads[2 * a] for a in order] + [pads[2 * a + 1] for a in order]
    name = w.image(nth(op)) if image else w.get(nth(op))
    value = w.number(op.attr("value"), nth(op))
    (w.set_image if image else w.set)(
        op.outputs[0], w.node("Pad", [name, w.ints(*turned), value], mode=op.attr("mode"))
    )


@exports("roll")
def roll(w: Writer, op: Operation) -> None:
    """Both parts of each axis the other way round; the shift is taken modulo the extent at run time."""
    shifts, axes = np.atleast_1d(op.attr("shifts")), np.atleast_1d(np.array(op.attr("axes"), np.int64))
    y = w.get(nth(op)) if axes.size else w.node("Reshape", [w.get(nth(op)), w.ints(-1)])
    for shift, axis in zip(shifts, axes % max(1, rank_of(op)) if axes.size else [0], strict=True):
        extent = w.node("Shape", [y], start=int(axis), end=int(axis) + 1)
        cut = w.node("Sub", [extent, w.node("Mod", [w.ints(int(shift)), extent])])
        first = w.node("Slice", [y, cut, w.ints(FAR), w.ints(int(axis))])
        y = w.node("Concat", [first, w.node("Slice", [y, w.ints(0), cut, w.ints(int(axis))])], axis=int(axis))
    w.set(op.outputs[0], y if axes.size else w.node("Reshape", [y, w.shape(nth(op))]))


@exports("triu", "tril")
def triangle(w: Writer, op: Operation) -> None:
    """Trilu."""
    k = w.constant(np.array(max(-FAR, min(FAR, int(op.attr("k")))), np.int64))
    w.set(op.outputs[0], w.node("Trilu", [w.get(nth(op)), k], upper=int(op.name == "triu")))


@exports("tile")
def tile(w: Writer, op: Operation) -> None:
    """Tile."""
    w.set(op.outputs[0], w.node("Tile", [w.get(nth(op)), w.ints(*(int(r) for r in op.attr("repeats")))]))


# -- shapes
@exports("reshape")
def reshape(w: Writer, op: Operation) -> None:
    """Reshape; 0 and -1 mean the same in ONNX."""
    w.set(op.outputs[0], w.node("Reshape", [w.get(nth(op)), w.ints(*(int(d) for d in op.attr("shape")))]))


@exports("reshape_like")
def reshape_like(w: Writer, op: Operation) -> None:
    """Reshape to the shape of another value."""
    w.set(op.outputs[0], w.node("Reshape", [w.get(nth(op)), w.shape(nth(op, 1))]))


@exports("flatten")
def flatten(w: Writer, op: Operation) -> None:
    """Reshape: extents before are kept by 0, those after are looked up."""
    rank = rank_of(op)
    start, end = op.attr("start") % rank, op.attr("end") % rank
    if end == rank - 1:
        wanted = w.ints(*[0] * start, -1)
    else:
        after = w.node("Shape", [w.get(nth(op))], start=end + 1)
        wanted = w.node("Concat", [w.ints(*[0] * start, -1), after], axis=0)
    w.set(op.outputs[0], w.node("Reshape", [w.get(nth(op)), wanted]))


@exports("unflatten_like")
def unflatten_like(w: Writer, op: Operation) -> None:
    """Reshape to extents of both inputs, looked up."""
    x, like = nth(op), nth(op, 1)
    axis, start, end = (int(op.attr(name)) % len(v.shape) for name, v in (("axis", x), ("start", like), ("end", like)))
    limits = [(x, 0, axis), (like, start, end + 1), (x, axis + 1, len(x.shape))]
    parts = [w.node("Slice", [w.shape(v), w.ints(a), w.ints(b)]) for v, a, b in limits if a < b]
    w.set(op.outputs[0], w.node("Reshape", [w.get(x), w.node("Concat", parts, axis=0)]))


@exports("expand_dims")
def expand_dims(w: Writer, op: Operation) -> None:
    """Unsqueeze."""
    w.set(op.outputs[0], w.node("Unsqueeze", [w.get(nth(op)), w.ints(int(op.attr("axis")))]))


@exports("squeeze")
def squeeze(w: Writer, op: Operation) -> None:
    """Squeeze."""
    w.set(op.outputs[0], w.node("Squeeze", [w.get(nth(op)), w.ints(int(op.attr("axis")))]))


@exports("broadcast_to")
def broadcast_to(w: Writer, op: Operation) -> None:
    """Expand to a fixed shape."""
    w.set(op.outputs[0], w.node("Expand", [w.get(nth(op)), w.ints(*(int(d) for d in op.attr("shape")))]))


@exports("broadcast_like")
def broadcast_like(w: Writer, op: Operation) -> None:
    """Expand to the shape of another value."""
    w.set(op.outputs[0], w.node("Expand", [w.get(nth(op)), w.shape(nth(op, 1))]))


def _filled(w: Writer, shape: str, op: Operation) -> str:
    value = np.array([op.attr("value")], op.outputs[0].dtype)
    tensor = w.helper.make_tensor("value", element_number(op.outputs[0]), [1], value)
    return w.node("ConstantOfShape", [shape], value=tensor)


@exports("full")
def full(w: Writer, op: Operation) -> None:
    """ConstantOfShape of a fixed shape."""
    w.set(op.outputs[0], _filled(w, w.ints(*(int(d) for d in op.attr("shape"))), op))


@exports("full_like")
def full_like(w: Writer, op: Operation) -> None:
    """ConstantOfShape of another value's shape."""
    w.set(op.outputs[0], _filled(w, w.shape(nth(op)), op))


@exports("extent")
def extent(w: Writer, op: Operation) -> None:
    """One entry of Shape."""
    w.set(op.outputs[0], _extent(w, op))


@exports("positions")
def positions(w: Writer, op: Operation) -> None:
    """Range up to one entry of Shape."""
    first, step = (w.constant(np.array(n, np.int64)) for n in (0, 1))
    w.set(op.outputs[0], w.node("Range", [first, _extent(w, op), step]))


def _extent(w: Writer, op: Operation) -> str:
    axis = int(op.attr("axis")) % len(nth(op).shape)
    return w.node("Squeeze", [w.node("Gather", [w.shape(nth(op)), w.ints(axis)]), w.ints(0)])


@exports("arange")
def arange(w: Writer, op: Operation) -> None:
    """A constant."""
    start, stop, step = (op.attr(n) for n in ("start", "stop", "step"))
    count = max(0, int(np.ceil((stop - start) / step)))
    w.set(op.outputs[0], w.constant((start + np.arange(count) * step).astype(op.outputs[0].dtype)))
