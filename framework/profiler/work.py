"""The arithmetic and the memory traffic that operators stand for: a formula of its block (OpInfo.flops), and its types.

Flops are those of the definition, a multiply-add counted as two, whatever the implementation saves: Winograd's rate is
a "direct" rate and may exceed the machine's peak. Bytes are those of all inputs and outputs, each counted once; what
an operator reads again or keeps in caches is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from framework.ops.registry import Shape, find

Type = tuple[Shape, str]  # shape and name of the data type


@dataclass(frozen=True)
class Work:
    """What one call does: floating point operations (0 where only traffic counts) and bytes read or written."""

    flops: int
    bytes: int


def work(name: str, inputs: Sequence[Type | None], outputs: Sequence[Type], attrs: Sequence[Any]) -> Work:
    """The work of one call of operator `name`; `attrs` in signature order, None for an absent optional input."""
    info = find(name)
    declared = _arguments(info.inputs, len(inputs)) if info else [{"shape_only": False}] * len(inputs)
    read = [t for t, arg in zip(inputs, declared, strict=True) if not arg["shape_only"]]
    traffic = sum(_bytes(t) for t in (*read, *outputs) if t is not None)
    return Work(info.flops(inputs, attrs) if info else 0, traffic)


def _arguments(declared: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """The declaration of each of `count` inputs; the last one may be variadic."""
    return [declared[min(i, len(declared) - 1)] for i in range(count)]


def _bytes(t: Type) -> int:
    return prod(t[0]) * _ITEM_SIZE[t[1]]


_ITEM_SIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2} | dict.fromkeys(
    ("int8", "uint8", "bool"), 1
)
