"""The table of converters: which function computes an operator of TensorFlow Lite.

A converter takes the node and its input Tensors (None where one is left out) and returns the outputs. It calls
`framework.ops`, so the same function runs at once or is traced into a Program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Converter:
    """One entry.

    Attributes:
        eight: what becomes of 8-bit numbers that stand for others. "moves": the function gets the integers, and only
            places them elsewhere; "float": it gets the numbers that they stand for, and its result is rounded to 8
            bits again; "own": it looks after them itself.
    """

    function: Function
    eight: str


_TABLE: dict[str, Converter] = {}


def tflite_op(*names: str, eight: str = "float") -> Callable[[Function], Function]:
    """Declares the function below as the converter of these operators."""

    def declare(function: Function) -> Function:
        for name in names:
            assert name not in _TABLE, name
            _TABLE[name] = Converter(function, eight)
        return function

    return declare


def find(op: str) -> Converter | None:
    """The converter of an operator, or None."""
    return _TABLE.get(op)


def known() -> list[str]:
    """All operators that are computed."""
    return sorted(_TABLE)
