"""The table of converters: which function computes an ONNX operator, by domain, name and operator-set version.

A converter takes the node and its input Tensors (None where one is absent) and returns the outputs. It calls
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
        since: first operator-set version that means this.
        compute: types that the function takes; inputs of narrower ones are widened and the outputs narrowed again.
            "any": all types as they are; "float": float32 and float64; "number": also int32 and int64.
    """

    function: Function
    since: int
    compute: str


_TABLE: dict[tuple[str, str], list[Converter]] = {}


def onnx_op(*names: str, since: int = 1, domain: str = "", compute: str = "any") -> Callable[[Function], Function]:
    """Declares the function below as the converter of ONNX operators from version `since` on."""

    def declare(function: Function) -> Function:
        for name in names:
            entries = _TABLE.setdefault((domain, name), [])
            entries.append(Converter(function, since, compute))
            entries.sort(key=lambda c: c.since)
        return function

    return declare


def find(domain: str, op: str, version: int) -> Converter | None:
    """The converter of an operator at an operator-set version, or None."""
    fitting = [c for c in _TABLE.get((domain, op), ()) if c.since <= version]
    return fitting[-1] if fitting else None


def known() -> list[tuple[str, str]]:
    """(domain, operator) of all entries."""
    return sorted(_TABLE)
