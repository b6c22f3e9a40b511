"""The arithmetic and the memory traffic that operators stand for: one formula an operator, by its inputs' shapes.

Flops are those of the definition, a multiply-add counted as two, whatever the implementation saves: Winograd's rate is
a "direct" rate and may exceed the machine's peak. Bytes are those of all inputs and outputs, each counted once; what
an operator reads again or keeps in caches is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from framework.ops.registry import find

Shape = tuple[int, ...]
Type = tuple[Shape, str]  # shape and name of the data type


@dataclass(frozen=True)
class Work:
    """What one call does: floating point operations (0 where only traffic counts) and bytes read or written."""

    flops: int
    bytes: int


def work(name: str, inputs: Sequence[Type | None], outputs: Sequence[Type], attrs: Sequence[Any]) -> Work:
    """The work of one call of operator `name`; `attrs` in signature order, None for an absent optional input."""
    info, count = find(name), FLOPS.get(name)
    declared = _arguments(info.inputs, len(inputs)) if info else [{"shape_only": False}] * len(inputs)
    read = [t for t, arg in zip(inputs, declared, strict=True) if not arg["shape_only"]]
    traffic = sum(_bytes(t) for t in (*read, *outputs) if t is not None)
    if count is None or info is None:
        return Work(0, traffic)
    named = {spec["name"]: value for spec, value in zip(info.attrs, attrs, strict=True)}
    return Work(count([() if t is None else t[0] for t in inputs], [shape for shape, _ in outputs], named), traffic)


def _arguments(declared: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """The declaration of each of `count` inputs; the last one may be variadic."""
    return [declared[min(i, len(declared) - 1)] for i in range(count)]


def _bytes(t: Type) -> int:
    return prod(t[0]) * _ITEM_SIZE[t[1]]


_ITEM_SIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2} | dict.fromkeys(
    ("int8", "uint8", "bool"), 1
)


# Each takes the shapes of all inputs, those of all outputs, and the attributes by name.
Formula = Callable[[Sequence[Shape], Sequence[Shape], Mapping[str, Any]], int]


def _convolution(pixels: Shape, weight: Shape) -> int:
    """pixels: [N, P, Q, K] of the smaller image; weight: [K, R, S, C/groups]."""
    return 2 * prod(pixels) * prod(weight[1:])


def _matmul(inputs: Sequence[Shape], outputs: Sequence[Shape], attrs: Mapping[str, Any]) -> int:
    a = inputs[0]  # [..., M, D], or [..., D, M]
    return 2 * prod(outputs[0]) * a[-2 if attrs["transpose_a"] else -1]


def _separable(inputs: Sequence[Shape], outputs: Sequence[Shape], attrs: Mapping[str, Any]) -> int:
    n, p, q, _ = outputs[0]
    return _convolution((n, p, q, inputs[1][0]), inputs[1]) + _convolution(outputs[0], inputs[2])


def _recurrent(rows: Shape, weight: Shape) -> int:
    """rows: [T, ...]; weight: [S, gates H, H], which every row meets. The gates' arithmetic is left out."""
    return 2 * rows[0] * prod(weight)


FLOPS: dict[str, Formula] = {
    "segment_outer": lambda inputs, outputs, attrs: 2 * prod(inputs[0]) * inputs[1][1],
    "segment_product": lambda inputs, outputs, attrs: 2 * prod(outputs[0]) * inputs[0][1],
    "conv2d": lambda inputs, outputs, attrs: _convolution(outputs[0], inputs[1]),
    "conv2d_grad_input": lambda inputs, outputs, attrs: _convolution(inputs[0], inputs[1]),
    "conv2d_grad_weight": lambda inputs, outputs, attrs: _convolution(inputs[1], outputs[0]),
    "separable_conv2d": _separable,
    "conv2d_transpose": lambda inputs, outputs, attrs: _convolution(inputs[0], inputs[1]),
    "deform_conv2d": lambda inputs, outputs, attrs: _convolution(outputs[0], inputs[2]),
    "deform_conv2d_grad": lambda inputs, outputs, attrs: 2 * _convolution(inputs[0], inputs[3]),
    "gru": lambda inputs, outputs, attrs: _recurrent(inputs[0], inputs[1]),
    "gru_grad": lambda inputs, outputs, attrs: 2 * _recurrent(inputs[0], inputs[2]),
    "lstm": lambda inputs, outputs, attrs: _recurrent(inputs[0], inputs[1]),
    "lstm_grad": lambda inputs, outputs, attrs: 2 * _recurrent(inputs[0], inputs[3]),
    "matmul": _matmul,
    "matmul_activation_grad": _matmul,
    "quantized_matmul": lambda inputs, outputs, attrs: 2 * prod(outputs[0]) * inputs[1][-1],  # of 8 bits
}
