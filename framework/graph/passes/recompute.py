"""A pass that computes cheap values again where a late reader needs them, so that they need not be kept meanwhile."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import graph_pass, name_of, place_of
from framework.graph.reports import PassReport
from framework.ops import registry
from framework.precision import HALF_TYPES

# A value must be idle for so many heavy operations: with fewer it is needed again while memory is fullest.
_LEAST_GAP = 4


@graph_pass(after=("fuse_batch_norm", "fuse_activation", "update_early"))
def recompute_activations(program: Program, report: PassReport) -> None:
    """Activations that the backward pass reads are made again there from what is alive then anyway.

    The output of a normalisation or activation is read by the next layer, and much later by that layer's weight
    gradient; its input is kept for its own gradient even longer. So the output's memory is given back in between, for
    one more pass over memory.
    """
    lives = _Lives(program)
    again: dict[int, list[Operation]] = {}  # position -> operations to repeat before it, last one first
    for op in reversed(program.block.ops):  # a later one may need an earlier one's result again
        place = lives.late_place(op)
        if place is None:
            continue
        missing = lives.missing_at(op, place)
        if missing is not None:
            report.missed.append(f"{name_of(op)}{place_of(op)} not computed again: {missing} is not alive any more")
            continue
        lives.repeat(op, place)
        again.setdefault(place, []).append(op)
        report.match(f"{name_of(op)}{place_of(op)} computed again for {name_of(program.block.ops[place])}")
    _emit(program, again)


class _Lives:
    """Where each value is read, by positions of operations in the block."""

    def __init__(self, program: Program) -> None:
        self._position = {op: i for i, op in enumerate(program.block)}
        self._producers = program.producers()
        self._kept = program.kept()
        self._reads: dict[Value, list[int]] = {}
        self._viewed: set[Value] = set()
        heavy = 0
        self._heavy_before = []  # position -> heavy operations before it
        for i, op in enumerate(program.block):
            self._heavy_before.append(heavy)
            heavy += op.info.heavy
            for v, spec in zip(op.inputs, _input_specs(op), strict=True):
                if v is not None and not spec:
                    self._reads.setdefault(v, []).append(i)
            if op.info.is_view and op.inputs[0] is not None:
                self._viewed.add(op.inputs[0])

    def late_place(self, op: Operation) -> int | None:
        """The position of the first reader of a cheap operation's result after a long time without one."""
        if not _is_cheap(op):
            return None
        y = op.outputs[0]
        if y in self._kept or y in self._viewed:
            return None
        reads = self._reads.get(y, [])
        gaps = [(self._heavy_before[b] - self._heavy_before[a], b) for a, b in pairwise(reads)]
        gap, place = max(gaps, default=(0, 0))
        return place if gap >= _LEAST_GAP else None

    def missing_at(self, op: Operation, place: int) -> Value | None:
        """An input of `op` that is neither alive at `place` nor can be computed again; None when there is none."""
        for v in _repeated_inputs(op):
            if v is None or v not in self._producers or self._alive(v, place):
                continue
            producer = self._producers[v]
            if not _is_cheap(producer) or v is not producer.outputs[0] or v in self._viewed:
                return v
            if self.missing_at(producer, place) is not None:
                return v
        return None

    def _alive(self, v: Value, place: int) -> bool:
        reads = self._reads.get(v, [])
        return v in self._kept or bisect_left(reads, place) < len(reads)

    def repeat(self, op: Operation, place: int) -> None:
        """Notes that `op` reads its inputs once more at `place`."""
        for v in _repeated_inputs(op):
            if v is not None:
                reads = self._reads.setdefault(v, [])
                reads.insert(bisect_right(reads, place), place)


def _is_cheap(op: Operation) -> bool:
    widens = op.name == "cast" and op.inputs[0] is not None and op.inputs[0].dtype in HALF_TYPES
    return op.info.recompute is not None or widens


def _input_specs(op: Operation) -> list[bool]:
    """For each input whether it is read for its shape only."""
    last = len(op.info.inputs) - 1
    return [op.info.inputs[min(i, last)]["shape_only"] for i in range(len(op.inputs))]


def _repeated_inputs(op: Operation) -> list[Value | None]:
    """What `_repeated` reads: inputs and outputs of `op` that its block names, or its own inputs."""
    again = op.info.recompute
    if again is None or again[0] == op.name:
        return op.inputs
    outputs = {spec["name"]: v for spec, v in zip(op.info.outputs, op.outputs, strict=True)}
    return [outputs[name] if name in outputs else op.input(name) for name in again[1]]


def _repeated(program: Program, op: Operation) -> Operation:
    """An operation that gives the first result of `op` once more."""
    name = op.info.recompute[0] if op.info.recompute else op.name
    info = registry.find(name)
    assert info is not None
    given = {a["name"]: value for a, value in zip(op.info.attrs, op.attrs, strict=True)}
    attrs = info.attr_values({a["name"]: given[a["name"]] for a in info.attrs if a["name"] in given})
    again = program.make_operation(info, _repeated_inputs(op), attrs, op.where)
    again.outputs[0].static = op.outputs[0].static
    return again


def _emit(program: Program, again: dict[int, list[Operation]]) -> None:
    latest: dict[Value | None, Value] = {}  # what stands for a value from here on
    ops = []
    for i, op in enumerate(program.block.ops):
        for source in reversed(again.get(i, [])):
            repeated = _repeated(program, source)
            repeated.inputs = [latest.get(v, v) for v in repeated.inputs]
            latest[source.outputs[0]] = repeated.outputs[0]
            ops.append(repeated)
        op.inputs = [latest.get(v, v) for v in op.inputs]
        ops.append(op)
    program.block.ops = ops
