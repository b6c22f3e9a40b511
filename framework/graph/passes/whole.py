"""Weights of a Program that are whole numbers with scales: found behind the arithmetic that makes fractions of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework import _core
from framework.errors import PaddockError
from framework.graph.ir import Operation, Program, Value
from framework.tensors import Tensor

_DEEPEST = 16  # operations behind a weight that are looked at


@dataclass(frozen=True)
class Whole:
    """Numbers q * scale; `scale` has q's axes, of one element where all along it have the same."""

    q: np.ndarray
    scale: np.ndarray
    name: str | None


class Wholes:
    """Looks at the constants of a Program as it stood when this was made."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._producers = program.producers()
        self._arrays: dict[Value, Any] = {}
        self._names: dict[Value, str | None] = {}

    def array(self, v: Value | None) -> np.ndarray | None:
        """A value that depends on constants alone; None where it does not."""
        found = self._native(v, _DEEPEST)
        return None if found is None else Tensor(found).numpy()

    def name(self, v: Value) -> str | None:
        """What the file calls a weight, or the whole numbers behind it where `filters` has found them."""
        return self._names.get(v, v.name)

    def filters(self, op: Operation) -> tuple[np.ndarray, np.ndarray] | None:
        """Weights of a conv2d or matmul less their zero points, and their scales.

        Returns:
            int16 [K, R, S, C/groups] and float32 [K]; None where they are no constants in 8 bits, or have other scales.
        """
        weight = op.inputs[1]
        found = self._whole(weight, _DEEPEST)
        if found is None or weight is None:
            return None
        self._names[weight] = found.name
        q, scale = found.q, found.scale
        if op.name == "matmul":
            rank = len(op.outputs[0].shape)
            if q.ndim != 2 or op.attr("transpose_a") or not 2 <= rank <= 4:
                return None
            q, scale = (q, scale) if op.attr("transpose_b") else (q.T, scale.T)
            q, scale = q[:, None, None, :], scale[:, None, None, :]
        if any(n > 1 for n in scale.shape[1:]):
            return None
        return q, np.broadcast_to(scale.reshape(-1), len(q)).astype(np.float32)

    def _native(self, v: Value | None, depth: int) -> Any:
        """The data of a constant, computed where operations on constants give it."""
        if v is None or v in self._program.constants:
            return None if v is None else self._program.constants[v]
        op = self._producers.get(v)
        if v in self._arrays or op is None or not (depth and v.static and op.info.pure) or op.info.many_outputs:
            return self._arrays.get(v)
        self._arrays[v] = None
        inputs = [self._native(x, depth - 1) for x in op.inputs]
        if all((x is None) == (data is None) for x, data in zip(op.inputs, inputs, strict=True)):
            with contextlib.suppress(PaddockError):  # data that the operator refuses
                self._arrays[v] = _core.call(op.info.native, tuple(inputs), op.attrs)
        return self._arrays[v]

    def _whole(self, v: Value | None, depth: int) -> Whole | None:
        op = self._producers.get(v) if v is not None else None
        if op is None or not depth:
            return None
        x = op.inputs[0] if op.inputs else None
        if op.name == "dequantize_linear":
            q = self._integers(x)
            return (
                None if q is None else _whole(q, op.attr("x_zero"), np.array(op.attr("x_scale"), np.float32), _named(x))
            )
        if op.name == "mul":
            return self._scaled(op)
        if op.name not in ("transpose", "expand_dims"):
            return None
        found = self._whole(x, depth - 1)
        if found is None:
            return None
        if op.name == "transpose":
            perm = [int(p) for p in op.attr("perm")] or None
            return Whole(found.q.transpose(perm), found.scale.transpose(perm), found.name)
        axis = op.attr("axis")
        return Whole(np.expand_dims(found.q, axis), np.expand_dims(found.scale, axis), found.name)

    def _scaled(self, op: Operation) -> Whole | None:
        """(cast(q) - zero) * scale, the arithmetic of a DequantizeLinear with several scales."""
        made, scale = self._behind(op)
        zero: np.ndarray | None = np.zeros((), np.float32)
        if made is not None and made.name == "sub":
            made, zero = self._behind(made)
        if scale is None or zero is None or made is None or made.name != "cast" or scale.dtype != np.float32:
            return None
        q = self._integers(made.inputs[0])
        return _whole(q, zero, scale, _named(made.inputs[0])) if q is not None and _fits(q, scale, zero) else None

    def _behind(self, op: Operation) -> tuple[Operation | None, np.ndarray | None]:
        """What makes the first input, and the second one, which is a constant."""
        x = op.inputs[0]
        return None if x is None else self._producers.get(x), self.array(op.inputs[1])

    def _integers(self, v: Value | None) -> np.ndarray | None:
        return self.array(v) if v is not None and v.dtype in ("int8", "uint8") else None


def _fits(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> bool:
    """Whether they are what DequantizeLinear has: extents that broadcast to q's, zeros that are 8-bit numbers."""
    try:
        broadcast = all(np.broadcast_shapes(q.shape, v.shape) == q.shape for v in (scale, zero))
    except ValueError:
        return False
    return broadcast and bool(((zero == np.rint(zero)) & (zero >= -128) & (zero <= 255)).all())


def _named(v: Value | None) -> str | None:
    return None if v is None else v.name


def _whole(q: np.ndarray, zero: Any, scale: np.ndarray, name: str | None) -> Whole:
    one: Sequence[int] = [1] * (q.ndim - scale.ndim)
    return Whole(q.astype(np.int16) - np.asarray(zero).astype(np.int16), scale.reshape(*one, *scale.shape), name)
