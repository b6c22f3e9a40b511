"""Products and reductions as nodes of ONNX."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.exporters.elementwise import activated
from framework.onnx.writer import AXIS_IN_BACK, Writer, element_number, exports, nth, rank_of, refuse


# -- products
@exports("matmul")
def matmul(w: Writer, op: Operation) -> None:
    """MatMul, then bias and activation."""
    factors = ((nth(op), "transpose_a"), (nth(op, 1), "transpose_b"))
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
    x, y = nth(op), op.outputs[0]
    axes = [int(a) % rank_of(op) for a in np.atleast_1d(op.attr("axes"))] or list(range(rank_of(op)))
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
    x, correction = nth(op), float(op.attr("correction"))
    axes = sorted(int(a) % rank_of(op) for a in np.atleast_1d(op.attr("axes"))) or list(range(rank_of(op)))
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
    out = w.node(_PLACES[op.name], [w.get(nth(op))], axis=int(op.attr("axis")), keepdims=int(op.attr("keepdims")))
    w.set(op.outputs[0], out)


@exports("cumsum")
def cumsum(w: Writer, op: Operation) -> None:
    """CumSum."""
    axis = w.constant(np.array(op.attr("axis") % rank_of(op), np.int64))
    w.set(op.outputs[0], w.node("CumSum", [w.get(nth(op)), axis], reverse=int(op.attr("reverse"))))


_SOFTMAX = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


@exports(*_SOFTMAX)
def softmax(w: Writer, op: Operation) -> None:
    """Softmax, LogSoftmax."""
    name = _SOFTMAX[op.name]
    axis = int(op.attr("axis")) % rank_of(op)
    if w.is_image(nth(op)):
        w.set_image(op.outputs[0], w.node(name, [w.image(nth(op))], axis=AXIS_IN_BACK[axis]))
    else:
        w.set(op.outputs[0], w.node(name, [w.get(nth(op))], axis=axis))


@exports("layer_norm")
def layer_norm(w: Writer, op: Operation) -> None:
    """LayerNormalization over the last axis."""
    x, scale, bias = nth(op), op.input("scale"), op.input("bias")
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
