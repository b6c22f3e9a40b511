"""Products and tables with 8-bit weights as nodes of ONNX, with each rounding written out as ours does it."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.exporters.elementwise import activated
from framework.onnx.exporters.tensor import turned
from framework.onnx.writer import Writer, exports


@exports("quantized_matmul")
def quantized_matmul(w: Writer, op: Operation) -> None:
    """The same 8-bit numbers and sums; rows that hold a NaN or an infinity aside."""
    x, weight = op.input("x"), op.input("weight")
    assert x is not None and weight is not None
    most = int(op.attr("x_most"))
    rows = _static_rows(w, op, w.get(x), most) if op.input("x_scale") else _dynamic_rows(w, w.get(x), most)
    rounded, scale = rows
    if most > _BYTE_MOST:
        sums = _sums_of_words(w, rounded, turned(w, weight))
    else:
        sums = w.node("MatMulInteger", [w.node("Cast", [rounded], to=_INT8), turned(w, weight)])
    # One after the other: ONNX Runtime 1.31 takes their product for the scale of a whole matrix and fuses it wrongly.
    y = w.node("Mul", [w.node("Cast", [sums], to=_FLOAT), scale])
    y = w.node("Mul", [y, w.get(op.input("weight_scale"))])
    for v in (op.input("bias"), op.input("residual")):
        if v is not None:
            y = w.node("Add", [y, w.get(v)])
    w.set(op.outputs[0], activated(w, op, y))


_FLOAT, _INT8, _DOUBLE = 1, 3, 11  # ONNX's numbers of the types
_BYTE_MOST = 127


def _number(w: Writer, value: float) -> str:
    return w.constant(np.array(value, np.float32))


def _sums_of_words(w: Writer, rounded: str, weight: str) -> str:
    """Sums of 16-bit rows, which MatMulInteger does not take: float64 holds them exactly."""
    return w.node("MatMul", [w.node("Cast", [v], to=_DOUBLE) for v in (rounded, weight)])


def _dynamic_rows(w: Writer, x: str, most: int) -> tuple[str, str]:
    """Rows of `x` as whole numbers in float32, and what 1 stands for in each: [..., 1]."""
    largest = w.node("ReduceMax", [w.node("Abs", [x])], axes=[-1], keepdims=1)
    factor = w.node("Div", [_number(w, most), largest])
    nothing, zero = w.node("IsInf", [factor]), _number(w, 0)
    factor = w.node("Where", [nothing, zero, factor])
    scale = w.node("Where", [nothing, zero, w.node("Div", [largest, _number(w, most)])])
    return w.node("Round", [w.node("Mul", [x, factor])]), scale


def _static_rows(w: Writer, op: Operation, x: str, most: int) -> tuple[str, str]:
    """Rows of `x` as whole numbers in float32, and what 1 stands for in all of them."""
    scale = w.get(op.input("x_scale"))
    scaled = w.node("Mul", [x, w.node("Div", [_number(w, 1), scale])])
    return w.node("Clip", [w.node("Round", [scaled]), _number(w, -most), _number(w, most)]), scale


@exports("quantized_embedding")
def quantized_embedding(w: Writer, op: Operation) -> None:
    """Rows and their scales are gathered apart."""
    weight, scale, ids = (w.get(op.input(name)) for name in ("weight", "weight_scale", "ids"))
    rows = w.node("Cast", [w.node("Gather", [weight, ids], axis=0)], to=_FLOAT)
    factor = w.node("Unsqueeze", [w.node("Gather", [scale, ids], axis=0), w.ints(-1)])
    padding, chosen = int(op.attr("padding_idx")), op.input("ids")
    if padding >= 0 and chosen is not None:
        is_padding = w.node("Equal", [ids, w.number(padding, chosen)])
        factor = w.node("Where", [w.node("Unsqueeze", [is_padding, w.ints(-1)]), _number(w, 0), factor])
    w.set(op.outputs[0], w.node("Mul", [rows, factor]))
