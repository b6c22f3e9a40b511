"""Calibration: a float Program runs on given inputs while observers look at some of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, DTypeError, NumericsError, ShapeError
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program, Value
from framework.quantization.observers import Observer
from framework.tensors import Tensor, from_numpy

Batch = Sequence[Any] | Mapping[str, Any]


def observe(program: Program, operations: Sequence[int], batches: Iterable[Batch]) -> list[Observer]:
    """What the first input of each of these operations (by number) is like while the Program runs on `batches`.

    Raises:
        AttributeValueError: there is no batch, or one does not have the Program's inputs.
        ShapeError, DTypeError: an input does not fit the Program.
        NumericsError: a value that is observed is not finite.
    """
    watched = program.clone()
    values = [watched.block.ops[i].inputs[0] for i in operations]
    watched.results = list(dict.fromkeys(v for v in values if v is not None))
    labels = [str(watched.block.ops[i]) for i in operations]
    passes.run(watched, ["drop_dead_code"])
    compiled = CompiledProgram(watched)
    observers: dict[Value | None, Observer] = {v: Observer() for v in watched.results}
    count = 0
    for batch in batches:
        found = compiled.run(_in_order(program, batch, count))
        for v, tensor in zip(watched.results, found, strict=True):
            array = tensor.numpy()
            if not np.isfinite(array).all():
                raise NumericsError(
                    f"quantize: calibration batch {count}: the input of {labels[values.index(v)]} has a NaN or an "
                    "infinity; look for it in the batch or in the weights"
                )
            observers[v].add(array)
        count += 1
    if count == 0:
        raise AttributeValueError(
            "quantize: mode 'static' measures the range of activations, but calibration has no batch; give inputs of "
            "the Program, or take mode 'dynamic'"
        )
    return [observers[v] for v in values]


def _in_order(program: Program, batch: Batch, number: int) -> list[Tensor]:
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
