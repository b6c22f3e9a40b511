"""Passes that remove work: constants computed once, equal operations merged, unused ones dropped."""

from __future__ import annotations

from typing import Any

from framework import _core
from framework.errors import PaddockError
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import graph_pass
from framework.graph.reports import PassReport

# Folding must not make a Program larger than the operations it saves: a `full` of a whole image stays an operation.
MAX_FOLDED_BYTES = 64 << 20


@graph_pass(before=("drop_dead_code",))
def fold_constants(program: Program, report: PassReport) -> None:
    """Computes operations whose inputs are all constants, once and for all."""
    kept = []
    for op in program.block:
        if not (op.info.pure and all(v is None or v in program.constants for v in op.inputs)):
            kept.append(op)
            continue
        inputs = tuple(None if v is None else program.constants[v] for v in op.inputs)
        try:
            out = _core.call(op.info.native, inputs, op.attrs)
        except PaddockError as e:  # data that it refuses; it may stand where it never runs
            kept.append(op)
            report.missed.append(f"{op} not folded: {e}")
            continue
        arrays = list(out) if op.info.many_outputs else [out]
        if sum(a.nbytes for a in arrays) > MAX_FOLDED_BYTES:
            kept.append(op)
            report.missed.append(
                f"{op} not folded: its {sum(a.nbytes for a in arrays)} bytes exceed {MAX_FOLDED_BYTES}"
            )
            continue
        for value, array in zip(op.outputs, arrays, strict=True):
            value.kind = "constant"
            value.static = True
            program.constants[value] = array
        report.match(f"{op} folded")
    program.block.ops = kept


@graph_pass()
def merge_equal_operations(program: Program, report: PassReport) -> None:
    """Keeps the first of operations with the same operator, inputs and attributes; of pure ones without blocks."""
    seen: dict[Any, Operation] = {}
    kept = []
    renamed: dict[Value, Value] = {}
    for op in program.block:
        op.inputs = [renamed.get(v, v) if v is not None else None for v in op.inputs]
        key = (op.name, tuple(op.inputs), repr(op.attrs))
        first = seen.setdefault(key, op) if op.info.pure and not op.blocks else op
        if first is op:
            kept.append(op)
            continue
        renamed.update(zip(op.outputs, first.outputs, strict=True))
        report.match(f"{op} equals {first}")
    program.block.ops = kept
    program.results = [renamed.get(v, v) for v in program.results]
    program.updates = {s: renamed.get(v, v) for s, v in program.updates.items()}


@graph_pass()
def drop_dead_code(program: Program, report: PassReport) -> None:
    """Drops pure operations that neither a result nor an update depends on, states and constants nobody reads."""
    alive: set[Value] = program.kept()
    kept: list[Operation] = []
    for op in reversed(program.block.ops):
        if op.info.pure and alive.isdisjoint(op.outputs):
            report.match(f"{op} is not used")
            continue
        alive.update(v for v in op.inputs if v is not None)
        kept.append(op)
    program.block.ops = kept[::-1]
    alive.update(program.updates)
    program.states = {v: t for v, t in program.states.items() if v in alive}
    program.constants = {v: a for v, a in program.constants.items() if v in alive}
