"""A model of memory that judges a plan: whoever reads a value must find that value's bytes.

It walks a Program in order and notes, for every place of memory, which value was written there last. It knows nothing
of how the planner decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Operation, Value

ITEM_SIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2} | dict.fromkeys(
    ("int8", "uint8", "bool"), 1
)
Place = tuple[str, int]  # the arena, or which input, state, constant or result


class PlanError(AssertionError):
    """A plan lets a value be overwritten before it has been read."""


class Memory:
    """Ranges of bytes, by place, and which value each holds."""

    def __init__(self) -> None:
        self._ranges: dict[Place, list[tuple[int, int, object]]] = {}

    def write(self, place: Place, low: int, high: int, holder: object) -> None:
        """Puts `holder` into bytes [low, high) and cuts what was there."""
        kept = []
        for a, b, other in self._ranges.get(place, []):
            kept += [(x, y, other) for x, y in ((a, min(b, low)), (max(a, high), b)) if x < y]
        self._ranges[place] = [*kept, (low, high, holder)]

    def holds(self, place: Place, low: int, high: int, holder: object) -> bool:
        """Whether all of [low, high) is `holder`'s."""
        covered = sum(
            min(b, high) - max(a, low)
            for a, b, other in self._ranges.get(place, [])
            if other is holder and a < high and b > low
        )
        return covered == max(0, high - low)


class _Plan:
    """A plan as the native side describes it, by value."""

    def __init__(self, compiled: CompiledProgram) -> None:
        plan = compiled.execution.executable.last_plan()
        assert plan is not None, "the Program has no plan yet"
        self.arena_bytes: int = plan["arena_bytes"]
        rows, self._numbers = plan["values"], compiled.execution.numbers
        self._rows = {v: rows[n] for v, n in self._numbers.items()}
        self._by_number = {n: v for v, n in self._numbers.items()}

    def root(self, v: Value) -> Value:
        """The value whose bytes `v` shares; itself, unless it is a view."""
        return self._by_number[self._rows[v][5]]

    def range_of(self, v: Value) -> tuple[Place, int, int]:
        """Where a value's bytes lie."""
        shape, dtype, kind, index, offset, _ = self._rows[v]
        return (kind, index), offset, offset + math.prod(shape) * ITEM_SIZE[dtype]


def check_plan(compiled: CompiledProgram) -> None:
    """Checks the plan that was used last.

    Raises:
        PlanError: a value is overwritten before its last reader, by another one or by an output that is not declared
            to work in place; an input or a constant is written; the arena is too small.
    """
    plan, memory, program = _Plan(compiled), Memory(), compiled.program
    for v in (*program.inputs, *program.states, *program.constants):
        memory.write(*plan.range_of(v), v)
    for op in program.block:
        _read(op, plan, memory)
        if plan.root(op.outputs[0]) is op.outputs[0]:
            _write(op, plan, memory)
        elif not (op.info.is_view or op.info.is_view_when_equal):
            raise PlanError(f"{op} is no view but has another value's memory")
    for v in program.results:
        _expect(v, plan, memory, "handed out")
    for state, v in program.updates.items():
        _expect(v, plan, memory, "stored into", state)
    for state in program.states:
        if state not in program.updates:
            _expect(state, plan, memory, "kept for the next run")


def _expect(v: Value, plan: _Plan, memory: Memory, why: str, by: object = "") -> None:
    if not memory.holds(*plan.range_of(v), plan.root(v)):
        raise PlanError(f"{v} is overwritten before it is {why} {by}".rstrip())


def _data_inputs(op: Operation) -> list[tuple[int, Value]]:
    """Inputs whose data the operator reads, with their positions."""
    last = len(op.info.inputs) - 1
    pairs = [(i, v) for i, v in enumerate(op.inputs) if v is not None]
    return [(i, v) for i, v in pairs if not op.info.inputs[min(i, last)]["shape_only"]]


def _read(op: Operation, plan: _Plan, memory: Memory) -> None:
    for _, v in _data_inputs(op):
        _expect(v, plan, memory, "read by", op)


def _write(op: Operation, plan: _Plan, memory: Memory) -> None:
    ranges = [plan.range_of(v) for v in op.outputs]
    read = [(i, plan.range_of(v)) for i, v in _data_inputs(op)]
    for k, (v, (place, low, high)) in enumerate(zip(op.outputs, ranges, strict=True)):
        if place[0] in ("input", "constant", "none") or (place[0] == "arena" and high > plan.arena_bytes):
            raise PlanError(f"{op} writes {v} to {place} [{low}, {high})")
        if any(_overlap((place, low, high), other) for other in ranges[:k]):
            raise PlanError(f"two outputs of {op} overlap")
        for i, other in read:
            if _overlap((place, low, high), other):
                _check_in_place(op, k, i, other == (place, low, high), plan)
        memory.write(place, low, high, v)


def _overlap(a: tuple[Place, int, int], b: tuple[Place, int, int]) -> bool:
    return a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])


def _check_in_place(op: Operation, output: int, i: int, same: bool, plan: _Plan) -> None:
    readers: Sequence[Value] = [v for _, v in _data_inputs(op) if plan.root(v) is plan.root(op.inputs[i])]  # type: ignore[arg-type]
    if (i, output) not in op.info.in_place or not same or len(readers) != 1:
        raise PlanError(f"{op} writes output {output} over its input number {i}, which is not declared")
