"""Operators on any tensors as nodes of ONNX: products, reductions, movements, shapes, indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.exporters.elementwise import activated
from framework.onnx.writer import AXIS_IN_BACK, FAR, Writer, element_number, exports, refuse


def _x(op: Operation, i: int = 0) -> Value:
    v = op.inputs[i]
    assert v is not None
    return v


def _rank(op: Operation) -> int:
    return len(_x(op).shape)


# -- products
@exports("matmul")
def matmul(w: Writer, op: Operation) -> None:
    """MatMul, then bias and activation."""
    factors = ((_x(op), "transpose_a"), (_x(op, 1), "transpose_b"))
    a, b = (turned(w, v) if op.attr(t) else w.get(v) for v, t in factors)
    y = w.node("MatMul", [a, b])
    bias = op.input("bias")
    if bias is not None:
        y = w.node("Add", [y, w.get(bias)])
    if any(v is not None for v in op.inputs[3:]):
        raise refuse(op, "its fused inputs are not written; export a Program made with EXPORT_PASSES")
    w.set(op.outputs[0], activated(w, op, y))


def turned(w: Writer, v: Value) -> str:
    """A matrix, or several, with the last two axes exchanged; of a constant no node is made."""
    known = w.array(v)
    if known is not None:
        return w.constant(np.swapaxes(known, -1, -2), name=v.name)
    rank = len(v.shape)
    return w.node("Transpose", [w.get(v)], perm=[*range(rank - 2), rank - 1, rank - 2])


# -- reductions
_REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
    "logsumexp": "ReduceLogSumExp",
    "any": "ReduceMax",
    "all": "ReduceMin",
}


@exports(*_REDUCTIONS)
def reduce(w: Writer, op: Operation) -> None:
    """A reduction in the layout at hand."""
    x, y = _x(op), op.outputs[0]
    axes = [int(a) % _rank(op) for a in np.atleast_1d(op.attr("axes"))] or list(range(_rank(op)))
    stays = w.is_image(x) and bool(op.attr("keepdims"))
    name = w.image(x) if stays else w.get(x)
    if stays:
        axes = [AXIS_IN_BACK[a] for a in axes]
    if x.dtype == "bool":
        name = w.node("Cast", [name], to=6)
    elif y.dtype != x.dtype:
        name = w.node("Cast", [name], to=element_number(y))
    keep = int(op.attr("keepdims"))
    if not axes:  # a number: all its axes are reduced already
        out = w.node(_REDUCTIONS[op.name], [name], keepdims=keep)
    elif op.name == "sum":
        out = w.node("ReduceSum", [name, w.ints(*axes)], keepdims=keep)
    else:
        out = w.node(_REDUCTIONS[op.name], [name], axes=sorted(axes), keepdims=keep)
    if x.dtype == "bool":
        out = w.node("Cast", [out], to=element_number(y))
    (w.set_image if stays else w.set)(y, out)


@exports("var", "std")
def variance(w: Writer, op: Operation) -> None:
    """The mean of squared distances, times elements / (elements - correction)."""
    x, correction = _x(op), float(op.attr("correction"))
    axes = sorted(int(a) % _rank(op) for a in np.atleast_1d(op.attr("axes"))) or list(range(_rank(op)))
    name, keep = w.get(x), int(op.attr("keepdims"))
    if not axes:
        raise refuse(op, "the variance of a number without axes is not written")
    away = w.node("Sub", [name, w.node("ReduceMean", [name], axes=axes, keepdims=1)])
    y = w.node("ReduceMean", [w.node("Mul", [away, away])], axes=axes, keepdims=keep)
    if correction:
        extents = w.node("Gather", [w.node("Shape", [name]), w.ints(*axes)])
        count = w.node("Cast", [w.node("ReduceProd", [extents], keepdims=0)], to=element_number(x))
        y = w.node("Mul", [y, w.node("Div", [count, w.node("Sub", [count, w.number(correction, x)])])])
    w.set(op.outputs[0], w.node("Sqrt", [y]) if op.name == "std" else y)


_PLACES = {"argmax": "ArgMax", "argmin": "ArgMin"}


@exports(*_PLACES)
def arg(w: Writer, op: Operation) -> None:
    """ArgMax, ArgMin."""
    out = w.node(_PLACES[op.name], [w.get(_x(op))], axis=int(op.attr("axis")), keepdims=int(op.attr("keepdims")))
    w.set(op.outputs[0], out)


@exports("cumsum")
def cumsum(w: Writer, op: Operation) -> None:
    """CumSum."""
    axis = w.constant(np.array(op.attr("axis") % _rank(op), np.int64))
    w.set(op.outputs[0], w.node("CumSum", [w.get(_x(op)), axis], reverse=int(op.attr("reverse"))))


_SOFTMAX = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


@exports(*_SOFTMAX)
def softmax(w: Writer, op: Operation) -> None:
    """Softmax, LogSoftmax."""
    name = _SOFTMAX[op.name]
    axis = int(op.attr("axis")) % _rank(op)
    if w.is_image(_x(op)):
        w.set_image(op.outputs[0], w.node(name, [w.image(_x(op))], axis=AXIS_IN_BACK[axis]))
    else:
        w.set(op.outputs[0], w.node(name, [w.get(_x(op))], axis=axis))


@exports("layer_norm")
def layer_norm(w: Writer, op: Operation) -> None:
    """LayerNormalization over the last axis."""
    x, scale, bias = _x(op), op.input("scale"), op.input("bias")
    given = w.get(scale) if scale is not None else w.constant(np.ones(x.shape[-1], x.dtype))
    inputs = [w.get(x), given, *([w.get(bias)] if bias is not None else [])]
    y, mean, rstd = op.outputs
    attributes = {"axis": -1, "epsilon": float(op.attr("eps"))}
    if not (w.is_used(mean) or w.is_used(rstd)):
        w.set(y, w.node("LayerNormalization", inputs, **attributes))
        return
    name, *statistics = w.nodes_out("LayerNormalization", inputs, 3, **attributes)
    w.set(y, name)
    for v, statistic in zip((mean, rstd), statistics, strict=True):
        w.set(v, w.node("Squeeze", [statistic, w.ints(-1)]))


# -- movements
@exports("transpose")
def transpose(w: Writer, op: Operation) -> None:
    """Transpose."""
    perm = [p % _rank(op) for p in op.attr("perm")] or list(reversed(range(_rank(op))))
    if not perm:
        w.set(op.outputs[0], w.get(_x(op)))
        return
    w.set(op.outputs[0], w.node("Transpose", [w.get(_x(op))], perm=perm))


@exports("concat")
def concat(w: Writer, op: Operation) -> None:
    """Concat, in the layout of the images."""
    xs, axis = [v for v in op.inputs if v is not None], int(op.attr("axis")) % _rank(op)
    if all(w.is_image(v) for v in xs):
        w.set_image(op.outputs[0], w.node("Concat", [w.image(v) for v in xs], axis=AXIS_IN_BACK[axis]))
    else:
        w.set(op.outputs[0], w.node("Concat", [w.get(v) for v in xs], axis=axis))


@exports("split")
def split(w: Writer, op: Operation) -> None:
    """Split; an open size is a slice to the end."""
    sizes, axis = [int(s) for s in op.attr("sizes")], int(op.attr("axis")) % _rank(op)
    image = w.is_image(_x(op))
    place = w.set_image if image else w.set
    name = w.image(_x(op)) if image else w.get(_x(op))
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
    axes = [int(a) % _rank(op) for a in op.attr("axes")] or list(range(len(starts)))
    steps = [int(v) for v in op.attr("steps")] or [1] * len(starts)
    image = w.is_image(_x(op))
    if image:
        axes = [AXIS_IN_BACK[a] for a in axes]
    name = w.image(_x(op)) if image else w.get(_x(op))
    out = w.node("Slice", [name, w.ints(*starts), w.ints(*ends), w.ints(*axes), w.ints(*steps)])
    (w.set_image if image else w.set)(op.outputs[0], out)


@exports("flip")
def flip(w: Writer, op: Operation) -> None:
    """Slice with steps of -1."""
    axes = sorted({int(a) % _rank(op) for a in np.atleast_1d(op.attr("axes"))}) or list(range(_rank(op)))
    n = len(axes)
    if not n:
        w.set(op.outputs[0], w.get(_x(op)))
        return
    limits = [w.ints(*[-1] * n), w.ints(*[-FAR] * n), w.ints(*axes), w.ints(*[-1] * n)]
    w.set(op.outputs[0], w.node("Slice", [w.get(_x(op)), *limits]))


@exports("pad")
def pad(w: Writer, op: Operation) -> None:
    """Pad."""
    pads, rank = [int(p) for p in op.attr("pads")], _rank(op)
    image = w.is_image(_x(op))
    order = (0, 3, 1, 2) if image else range(rank)
    turned = [pads[2 * a] for a in order] + [pads[2 * a + 1] for a in order]
    name = w.image(_x(op)) if image else w.get(_x(op))
    value = w.number(op.attr("value"), _x(op))
    (w.set_image if image else w.set)(
        op.outputs[0], w.node("Pad", [name, w.ints(*turned), value], mode=op.attr("mode"))
    )


@exports("roll")
def roll(w: Writer, op: Operation) -> None:
    """Both parts of each axis the other way round; the shift is taken modulo the extent at run time."""
    shifts, axes = np.atleast_1d(op.attr("shifts")), np.atleast_1d(np.array(op.attr("axes"), np.int64))
    y = w.get(_x(op)) if axes.size else w.node("Reshape", [w.get(_x(op)), w.ints(-1)])
    for shift, axis in zip(shifts, axes % max(1, _rank(op)) if axes.size else [0], strict=True):
        extent = w.node("Shape", [y], start=int(axis), end=int(axis) + 1)
        cut = w.node("Sub", [extent, w.node("Mod", [w.ints(int(shift)), extent])])
        first = w.node("Slice", [y, cut, w.ints(FAR), w.ints(int(axis))])
        y = w.node("Concat", [first, w.node("Slice", [y, w.ints(0), cut, w.ints(int(axis))])], axis=int(axis))
    w.set(op.outputs[0], y if axes.size else w.node("Reshape", [y, w.shape(_x(op))]))


@exports("triu", "tril")
def triangle(w: Writer, op: Operation) -> None:
    """Trilu."""
    k = w.constant(np.array(max(-FAR, min(FAR, int(op.attr("k")))), np.int64))
    w.set(op.outputs[0], w.node("Trilu", [w.get(_x(op)), k], upper=int(op.name == "triu")))


@exports("tile")
def tile(w: Writer, op: Operation) -> None:
    """Tile."""
    w.set(op.outputs[0], w.node("Tile", [w.get(_x(op)), w.ints(*(int(r) for r in op.attr("repeats")))]))


# -- shapes
@exports("reshape")
def reshape(w: Writer, op: Operation) -> None:
    """Reshape; 0 and -1 mean the same in ONNX."""
    w.set(op.outputs[0], w.node("Reshape", [w.get(_x(op)), w.ints(*(int(d) for d in op.attr("shape")))]))


@exports("reshape_like")
def reshape_like(w: Writer, op: Operation) -> None:
    """Reshape to the shape of another value."""
    w.set(op.outputs[0], w.node("Reshape", [w.get(_x(op)), w.shape(_x(op, 1))]))


@exports("flatten")
def flatten(w: Writer, op: Operation) -> None:
    """Reshape: extents before are kept by 0, those after are looked up."""
    rank = _rank(op)
    start, end = op.attr("start") % rank, op.attr("end") % rank
    if end == rank - 1:
        wanted = w.ints(*[0] * start, -1)
    else:
        after = w.node("Shape", [w.get(_x(op))], start=end + 1)
        wanted = w.node("Concat", [w.ints(*[0] * start, -1), after], axis=0)
    w.set(op.outputs[0], w.node("Reshape", [w.get(_x(op)), wanted]))


@exports("unflatten_like")
def unflatten_like(w: Writer, op: Operation) -> None:
    """Reshape to extents of both inputs, looked up."""
    x, like = _x(op), _x(op, 1)
    axis, start, end = (int(op.attr(name)) % len(v.shape) for name, v in (("axis", x), ("start", like), ("end", like)))
    limits = [(x, 0, axis), (like, start, end + 1), (x, axis + 1, len(x.shape))]
    parts = [w.node("Slice", [w.shape(v), w.ints(a), w.ints(b)]) for v, a, b in limits if a < b]
    w.set(op.outputs[0], w.node("Reshape", [w.get(x), w.node("Concat", parts, axis=0)]))


@exports("expand_dims")
def expand_dims(w: Writer, op: Operation) -> None:
    """Unsqueeze."""
    w.set(op.outputs[0], w.node("Unsqueeze", [w.get(_x(op)), w.ints(int(op.attr("axis")))]))


@exports("squeeze")
def squeeze(w: Writer, op: Operation) -> None:
    """Squeeze."""
    w.set(op.outputs[0], w.node("Squeeze", [w.get(_x(op)), w.ints(int(op.attr("axis")))]))


@exports("broadcast_to")
def broadcast_to(w: Writer, op: Operation) -> None:
    """Expand to a fixed shape."""
    w.set(op.outputs[0], w.node("Expand", [w.get(_x(op)), w.ints(*(int(d) for d in op.attr("shape")))]))


@exports("broadcast_like")
def broadcast_like(w: Writer, op: Operation) -> None:
    """Expand to the shape of another value."""
    w.set(op.outputs[0], w.node("Expand", [w.get(_x(op)), w.shape(_x(op, 1))]))


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
    w.set(op.outputs[0], _filled(w, w.shape(_x(op)), op))


@exports("extent")
def extent(w: Writer, op: Operation) -> None:
    """One entry of Shape."""
    axis = int(op.attr("axis")) % len(_x(op).shape)
    w.set(op.outputs[0], w.node("Squeeze", [w.node("Gather", [w.shape(_x(op)), w.ints(axis)]), w.ints(0)]))


@exports("arange")
def arange(w: Writer, op: Operation) -> None:
    """A constant."""
    start, stop, step = (op.attr(n) for n in ("start", "stop", "step"))
    count = max(0, int(np.ceil((stop - start) / step)))
    w.set(op.outputs[0], w.constant((start + np.arange(count) * step).astype(op.outputs[0].dtype)))


# -- indices
@exports("gather")
def gather(w: Writer, op: Operation) -> None:
    """Gather."""
    w.set(op.outputs[0], w.node("Gather", [w.get(_x(op)), w.get(_x(op, 1))], axis=int(op.attr("axis"))))


@exports("scatter")
def scatter(w: Writer, op: Operation) -> None:
    """ScatterND with the axis first. ONNX leaves open which of several updates of one place counts."""
    x, indices, updates = (_x(op, i) for i in range(3))
    axis, many = int(op.attr("axis")) % _rank(op), len(indices.shape)
    front = [axis, *(a for a in range(_rank(op)) if a != axis)]
    rows = [*range(axis, axis + many), *(a for a in range(len(updates.shape)) if not axis <= a < axis + many)]
    extent = w.node("Gather", [w.shape(x), w.constant(np.array(axis, np.int64))])
    wide = w.node("Cast", [w.get(indices)], to=7)
    wide = w.node(
        "Where", [w.node("Less", [wide, w.constant(np.array(0, np.int64))]), w.node("Add", [wide, extent]), wide]
    )
    turned = [w.node("Transpose", [w.get(v)], perm=p) for v, p in ((x, front), (updates, rows))]
    y = w.node("ScatterND", [turned[0], w.node("Unsqueeze", [wide, w.ints(-1)]), turned[1]])
    w.set(op.outputs[0], w.node("Transpose", [y], perm=[int(a) for a in np.argsort(front)]))


@exports("gather_nd")
def gather_nd(w: Writer, op: Operation) -> None:
    """GatherND."""
    w.set(op.outputs[0], w.node("GatherND", [w.get(_x(op)), w.node("Cast", [w.get(_x(op, 1))], to=7)]))


@exports("scatter_nd_add")
def scatter_nd_add(w: Writer, op: Operation) -> None:
    """ScatterND that adds."""
    inputs = [w.get(_x(op)), w.node("Cast", [w.get(_x(op, 1))], to=7), w.get(_x(op, 2))]
    w.set(op.outputs[0], w.node("ScatterND", inputs, reduction="add"))


@exports("embedding")
def embedding(w: Writer, op: Operation) -> None:
    """Gather; rows of the padding id are zeros."""
    y = w.node("Gather", [w.get(_x(op)), w.get(_x(op, 1))], axis=0)
    padding = int(op.attr("padding_idx"))
    if padding >= 0:
        is_padding = w.node("Equal", [w.get(_x(op, 1)), w.number(padding, _x(op, 1))])
        y = w.node("Where", [w.node("Unsqueeze", [is_padding, w.ints(-1)]), w.number(0, _x(op)), y])
    w.set(op.outputs[0], y)


@exports("take_along_axis")
def take_along_axis(w: Writer, op: Operation) -> None:
    """GatherElements."""
    axis = int(op.attr("axis")) % _rank(op)
    w.set(op.outputs[0], w.node("GatherElements", [w.get(_x(op)), w.get(_x(op, 1))], axis=axis))


@exports("one_hot")
def one_hot(w: Writer, op: Operation) -> None:
    """Equal with all places: OneHot takes no 0-d indices."""
    ids = w.node("Cast", [w.node("Unsqueeze", [w.get(_x(op)), w.ints(-1)])], to=7)
    hit = w.node("Equal", [ids, w.constant(np.arange(int(op.attr("depth"))))])
    w.set(op.outputs[0], w.node("Cast", [hit], to=element_number(op.outputs[0])))


@exports("topk")
def topk(w: Writer, op: Operation) -> None:
    """TopK."""
    _topk(w, op, w.ints(int(op.attr("k"))), op.attr("largest"))


@exports("sort")
def sort(w: Writer, op: Operation) -> None:
    """TopK of all elements."""
    axis = op.attr("axis") % _rank(op)
    extent = w.node("Shape", [w.get(_x(op))], start=axis, end=axis + 1)
    _topk(w, op, extent, op.attr("descending"))


def _topk(w: Writer, op: Operation, k: str, largest: Any) -> None:
    axis = op.attr("axis") % _rank(op)
    outs = w.nodes_out("TopK", [w.get(_x(op)), k], 2, axis=axis, largest=int(bool(largest)), sorted=1)
    for v, name in zip(op.outputs, outs, strict=True):
        w.set(v, name)
