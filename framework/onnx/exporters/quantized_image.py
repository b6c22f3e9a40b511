"""Images in 8 bits as ONNX has them: float operators between DequantizeLinear and QuantizeLinear (QDQ).

Runtimes fuse these to operators on integers. Their results may differ from ours by one step of 8 bits, where they round
the factors of a sum otherwise.
"""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.exporters.image import convolved
from framework.onnx.writer import TO_BACK, Writer, exports, refuse
from framework.quantization.weights import rounded_bias


def _steps(w: Writer, op: Operation, name: str, dtype: str) -> list[str]:
    scale, zero = op.attr(f"{name}_scale"), op.attr(f"{name}_zero")
    return [w.constant(np.array(scale, np.float32)), w.constant(np.array(zero, dtype))]


def _given(op: Operation, name: str) -> Value:
    v = op.input(name)
    assert v is not None
    return v


def _floats(w: Writer, op: Operation, name: str, given: str | None = None) -> str:
    """An 8-bit input as float32; `given` says where it stands."""
    v = _given(op, name)
    return w.node("DequantizeLinear", [given or w.get(v), *_steps(w, op, name, v.dtype)])


def _bytes(w: Writer, op: Operation, y: str) -> str:
    return w.node("QuantizeLinear", [y, *_steps(w, op, "y", op.outputs[0].dtype)])


def _ended(w: Writer, op: Operation, y: str) -> str:
    activation = op.attr("activation")
    if activation == "leaky_relu":
        return w.node("LeakyRelu", [y], alpha=float(op.attr("slope")))
    if activation == "relu":
        return w.node("Relu", [y])
    if activation == "relu6":
        return w.node("Clip", [y, w.constant(np.float32(0)), w.constant(np.float32(6))])
    return y


@exports("quantize_linear")
def quantize_linear(w: Writer, op: Operation) -> None:
    """QuantizeLinear, in whichever layout the input is at hand."""
    x = _given(op, "x")
    if w.is_image(x):
        w.set_image(op.outputs[0], _bytes(w, op, w.image(x)))
    else:
        w.set(op.outputs[0], _bytes(w, op, w.get(x)))


@exports("dequantize_linear")
def dequantize_linear(w: Writer, op: Operation) -> None:
    """DequantizeLinear, in whichever layout the input is at hand."""
    x = _given(op, "x")
    if w.is_image(x):
        w.set_image(op.outputs[0], _floats(w, op, "x", w.image(x)))
    else:
        w.set(op.outputs[0], _floats(w, op, "x"))


@exports("quantized_add")
def quantized_add(w: Writer, op: Operation) -> None:
    """Add of two DequantizeLinear."""
    if any(w.is_image(op.input(name)) for name in ("a", "b")):
        a, b = (_floats(w, op, name, w.image(_given(op, name))) for name in ("a", "b"))
        w.set_image(op.outputs[0], _bytes(w, op, _ended(w, op, w.node("Add", [a, b]))))
    else:
        y = w.node("Add", [_floats(w, op, "a"), _floats(w, op, "b")])
        w.set(op.outputs[0], _bytes(w, op, _ended(w, op, y)))


@exports("quantized_conv2d")
def quantized_conv2d(w: Writer, op: Operation) -> None:
    """Conv of DequantizeLinear of x and of the weights, each filter with its scale."""
    x, residual = _given(op, "x"), op.input("residual")
    if op.attr("dtype") == "int32":
        return _sums(w, op)
    image = _floats(w, op, "x", w.image(x)) if x.dtype != "float32" else _rounded(w, op, w.image(x))
    y = convolved(w, op, "Conv", [image, _kernel(w, op), *_bias(w, op)])
    if residual is not None:
        other = w.image(residual)
        if residual.dtype != "float32":
            other = _floats(w, op, "residual", other)
        last = op.attr("residual_last")
        y = w.node("Add", [_ended(w, op, y) if last else y, other])
        y = y if last else _ended(w, op, y)
    else:
        y = _ended(w, op, y)
    w.set_image(op.outputs[0], y if op.outputs[0].dtype == "float32" else _bytes(w, op, y))


def _rounded(w: Writer, op: Operation, x: str) -> str:
    """What 16 bits make of a float32 image, as QuantizeLinear and DequantizeLinear of opset 21 would."""
    scale, most = w.constant(np.array(op.attr("x_scale"), np.float32)), int(op.attr("x_most"))
    ends = (w.constant(np.array(end, np.float32)) for end in (-most, most))
    return w.node("Mul", [w.node("Clip", [w.node("Round", [w.node("Div", [x, scale])]), *ends]), scale])


def _sums(w: Writer, op: Operation) -> None:
    """ConvInteger: the sums alone."""
    x = _given(op, "x")
    if x.dtype == "float32":
        raise refuse(op, "sums of 16-bit images are not written; ConvInteger takes 8 bits")
    zero = w.constant(np.array(op.attr("x_zero"), x.dtype))
    w.set_image(op.outputs[0], convolved(w, op, "ConvInteger", [w.image(x), _integers(w, op), zero]))


def _integers(w: Writer, op: Operation) -> str:
    """The weights as they are, [K, C/groups, R, S]."""
    weight = _given(op, "weight")
    known = w.array(weight)
    if known is None:
        return w.node("Transpose", [w.get(weight)], perm=TO_BACK)
    return w.constant(known.transpose(TO_BACK), name=weight.name)


def _kernel(w: Writer, op: Operation) -> str:
    weight, scale = _given(op, "weight"), _given(op, "weight_scale")
    kernel = _integers(w, op)
    zeros = w.constant(np.zeros(weight.shape[0], np.int8))
    return w.node("DequantizeLinear", [kernel, w.get(scale), zeros], axis=0)


def _bias(w: Writer, op: Operation) -> list[str]:
    """As int32 in steps of the sums where it fits, which runtimes want; else, and for 16-bit images, float32."""
    bias, scale = op.input("bias"), _given(op, "weight_scale")
    if bias is None:
        return []
    if _given(op, "x").dtype == "float32":
        return [w.get(bias)]
    known, factors = w.array(bias), w.array(scale)
    rounded = None if known is None or factors is None else rounded_bias(known, op.attr("x_scale"), factors)
    if rounded is None:
        return [w.get(bias)]
    whole, steps = rounded
    zeros = w.constant(np.zeros(len(steps), np.int32))
    return [w.node("DequantizeLinear", [w.constant(whole), w.constant(steps), zeros], axis=0)]
