"""Element-wise operators as nodes of ONNX; they work in whichever layout their inputs are at hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.writer import TO_BACK, Writer, element_number, exports, refuse

Write = Callable[[Writer, Operation, list[str]], str]

_ONE_NODE = {
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "exp": "Exp",
    "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "erf": "Erf",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "relu": "Relu",
    "selu": "Selu",
    "hardswish": "HardSwish",
    "logical_not": "Not",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "where": "Where",
}


def _number(w: Writer, op: Operation, value: float) -> str:
    x = op.inputs[0]
    assert x is not None
    return w.number(value, x)


def _floor_div(w: Writer, op: Operation, x: list[str]) -> str:
    if op.outputs[0].dtype.startswith("float"):
        return w.node("Floor", [w.node("Div", x)])
    remainder = w.node("Mod", x)  # of b's sign, so that a minus it is divided without rest
    return w.node("Div", [w.node("Sub", [x[0], remainder]), x[1]])


def _mod(w: Writer, op: Operation, x: list[str]) -> str:
    if not op.outputs[0].dtype.startswith("float"):
        return w.node("Mod", x)
    return w.node("Sub", [x[0], w.node("Mul", [x[1], w.node("Floor", [w.node("Div", x)])])])


def _gelu(w: Writer, op: Operation, x: list[str]) -> str:
    if op.attr("approximate"):
        cube = w.node("Mul", [w.node("Mul", [x[0], x[0]]), x[0]])
        inner = w.node("Add", [x[0], w.node("Mul", [cube, _number(w, op, 0.044715)])])
        share = w.node("Tanh", [w.node("Mul", [inner, _number(w, op, float(np.sqrt(2 / np.pi)))])])
    else:
        share = w.node("Erf", [w.node("Mul", [x[0], _number(w, op, float(np.sqrt(0.5)))])])
    half = w.node("Mul", [x[0], _number(w, op, 0.5)])
    return w.node("Mul", [half, w.node("Add", [share, _number(w, op, 1.0)])])


def _prelu(w: Writer, op: Operation, x: list[str]) -> str:
    if op.inputs[0] is not None and len(op.inputs[0].shape) == len(op.outputs[0].shape):
        return w.node("PRelu", x)  # the slope alone broadcasts
    return w.node("Where", [w.node("Greater", [x[0], _number(w, op, 0.0)]), x[0], w.node("Mul", x)])


_COMPOSED: dict[str, Write] = {
    "square": lambda w, op, x: w.node("Mul", [x[0], x[0]]),
    "rsqrt": lambda w, op, x: w.node("Reciprocal", [w.node("Sqrt", x)]),
    "trunc": lambda w, op, x: w.node("Mul", [w.node("Sign", x), w.node("Floor", [w.node("Abs", x)])]),
    "expm1": lambda w, op, x: w.node("Sub", [w.node("Exp", x), _number(w, op, 1.0)]),
    "log1p": lambda w, op, x: w.node("Log", [w.node("Add", [x[0], _number(w, op, 1.0)])]),
    "log2": lambda w, op, x: w.node("Mul", [w.node("Log", x), _number(w, op, float(1 / np.log(2)))]),
    "log_sigmoid": lambda w, op, x: w.node("Neg", [w.node("Softplus", [w.node("Neg", x)])]),
    "relu6": lambda w, op, x: w.node("Clip", [x[0], _number(w, op, 0.0), _number(w, op, 6.0)]),
    "silu": lambda w, op, x: w.node("Mul", [x[0], w.node("Sigmoid", x)]),
    "mish": lambda w, op, x: w.node("Mul", [x[0], w.node("Tanh", [w.node("Softplus", x)])]),
    "hardsigmoid": lambda w, op, x: w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "leaky_relu": lambda w, op, x: w.node("LeakyRelu", x, alpha=float(op.attr("slope"))),
    "elu": lambda w, op, x: w.node("Elu", x, alpha=float(op.attr("alpha"))),
    "gelu": _gelu,
    "prelu": _prelu,
    "floor_div": _floor_div,
    "mod": _mod,
    "not_equal": lambda w, op, x: w.node("Not", [w.node("Equal", x)]),
    "isfinite": lambda w, op, x: w.node("Not", [w.node("Or", [w.node("IsNaN", x), w.node("IsInf", x)])]),
    "lerp": lambda w, op, x: w.node("Add", [x[0], w.node("Mul", [x[2], w.node("Sub", [x[1], x[0]])])]),
    "cast": lambda w, op, x: w.node("Cast", x, to=element_number(op.outputs[0])),
    "copy": lambda w, op, x: w.node("Identity", x),
}


@exports("clip")
def clip(w: Writer, op: Operation) -> None:
    """Limits that are infinite are left out."""

    def write(w: Writer, op: Operation, x: list[str]) -> str:
        limits = [_number(w, op, v) if np.isfinite(v) else "" for v in (op.attr("min"), op.attr("max"))]
        return w.node("Clip", [*x, *limits])

    _write(w, op, write)


def _write(w: Writer, op: Operation, write: Write) -> None:
    """Writes an operator in the layout of its inputs."""
    y, inputs = op.outputs[0], [v for v in op.inputs if v is not None]
    images = [v for v in inputs if w.is_image(v)]
    if len(y.shape) == 4 and images and all(_fits(w, v) for v in inputs):
        w.set_image(y, write(w, op, [_aligned(w, v) for v in inputs]))
    else:
        w.set(y, write(w, op, [w.get(v) for v in inputs]))


def _fits(w: Writer, v: Value) -> bool:
    return w.is_image(v) or len(v.shape) == 0 or w.array(v) is not None


def _aligned(w: Writer, v: Value) -> str:
    if w.is_image(v) or len(v.shape) == 4:
        return w.image(v)
    known = w.array(v)
    if known is None or known.ndim == 0:
        return w.get(v)
    return w.constant(known.reshape((1,) * (4 - known.ndim) + known.shape).transpose(TO_BACK))


def _declare(name: str, write: Write) -> None:
    exports(name)(lambda w, op: _write(w, op, write))


def _one_node(onnx_name: str) -> Write:
    def write(w: Writer, op: Operation, x: list[str]) -> str:
        first = op.inputs[0]
        if first is not None and first.dtype == "bool" and onnx_name.startswith(("Less", "Greater")):
            x = [w.node("Cast", [name], to=6) for name in x]  # ONNX orders numbers only
        return w.node(onnx_name, x)

    return write


for _name, _onnx_name in _ONE_NODE.items():
    _declare(_name, _one_node(_onnx_name))
for _name, _composed in _COMPOSED.items():
    _declare(_name, _composed)


def activated(w: Writer, op: Operation, y: str) -> str:
    """The epilogue of a fused operator."""
    activation = op.attr("activation")
    if activation == "none":
        return y
    if activation == "leaky_relu":
        return w.node("LeakyRelu", [y], alpha=float(op.attr("slope")))
    if activation == "relu":
        return w.node("Relu", [y])
    if activation == "relu6":
        return w.node("Clip", [y, w.number(0, op.outputs[0]), w.number(6, op.outputs[0])])
    raise refuse(op, f"its activation '{activation}' is not written; export a Program made with EXPORT_PASSES")
