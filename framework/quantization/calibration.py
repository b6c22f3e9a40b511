"""Calibration: a float Program runs on given inputs while observers look at some of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from framework.errors import AttributeValueError, DTypeError, NumericsError, ShapeError
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program, Value
from framework.tensors import Tensor, from_numpy

Batch = Sequence[Any] | Mapping[str, Any]
MEMORY = 512 << 20  # bytes of values that are observed in one run of the Program


class Looks(Protocol):
    """What looks at a value."""

    def add(self, x: np.ndarray) -> None:
        """Takes in one batch's values."""


L = TypeVar("L", bound=Looks)


def observe(
    program: Program, values: Sequence[Value], batches: Iterable[Batch], kind: Callable[[], L]
) -> dict[Value, L]:
    """What each of these values of a Program is like while it runs on `batches`, by an observer of `kind` each.

    Raises:
        AttributeValueError: there is no batch, or one does not have the Program's inputs.
        ShapeError, DTypeError: an input does not fit the Program.
        NumericsError: a value that is observed is not finite.
    """
    values = list(dict.fromkeys(values))
    observers = {v: kind() for v in values}
    parts = [(part, giving(program, part)) for part in _parts(values)]
    count = 0
    for batch in batches:
        inputs = in_order(program, batch, count)
        if inputs and not any(t.size for t in inputs):
            raise AttributeValueError(f"quantize: calibration batch {count} is empty; leave it out")
        for part, compiled in parts:
            for v, tensor in zip(part, compiled.run(inputs), strict=True):
                array = tensor.numpy()
                if not np.isfinite(array).all():
                    raise NumericsError(
                        f"quantize: calibration batch {count}: {_described(program, v)} has a NaN or an infinity; look "
                        "for it in the batch or in the weights"
                    )
                observers[v].add(array)
        count += 1
    if count == 0:
        raise AttributeValueError(
            "quantize: mode 'static' measures the range of activations, but calibration has no batch; give inputs of "
            "the Program, or take mode 'dynamic'"
        )
    return observers


def _parts(values: Sequence[Value]) -> list[list[Value]]:
    """Values in groups that lie in memory together, by their sizes in the trace."""
    parts: list[list[Value]] = [[]]
    used = 0
    for v in values:
        size = 4 * math.prod(v.shape)
        if parts[-1] and used + size > MEMORY:
            parts.append([])
            used = 0
        parts[-1].append(v)
        used += size
    return parts


def giving(program: Program, values: Sequence[Value]) -> CompiledProgram:
    """A copy whose results are these values."""
    watched = program.clone()
    same = dict(zip(program.values(), watched.values(), strict=True))
    watched.results = [same[v] for v in values]
    passes.run(watched, ["drop_dead_code"])
    return CompiledProgram(watched)


def _described(program: Program, v: Value) -> str:
    reader = next((op for op in program.block if v in op.inputs), None)
    return f"value {v}" if reader is None else f"the input of {reader}"


def in_order(program: Program, batch: Batch, number: int) -> list[Tensor]:
    """The inputs of one batch as Tensors, checked against the Program's."""
    who = f"quantize: calibration batch {number}"
    names = [v.name or f"input{i}" for i, v in enumerate(program.inputs)]
    if isinstance(batch, Mapping):
        missing = [name for name in names if name not in batch]
        if missing:
            raise AttributeValueError(f"{who} has no {', '.join(missing)}; the Program takes {', '.join(names)}")
        batch = [batch[name] for name in names]
    if len(batch) != len(names):
        raise AttributeValueError(f"{who} has {len(batch)} inputs; the Program takes {', '.join(names)}")
    tensors = [x if isinstance(x, Tensor) else from_numpy(np.ascontiguousarray(x)) for x in batch]
    for name, t, v in zip(names, tensors, program.inputs, strict=True):
        if t.dtype != v.dtype:
            raise DTypeError(f"{who}: {name} is {t.dtype} but the Program takes {v.type_text}")
        if t.ndim != len(v.shape) or (program.shape_reads and t.shape != v.shape):
            why = f", the only shape it takes, because {program.shape_reads[0]}" if program.shape_reads else ""
            raise ShapeError(f"{who}: {name} has shape {list(t.shape)} but the Program takes {v.type_text}{why}")
    return tensors
