"""A Program with effects, cut into what the host does first, what the device does, and what the host does last.

Tables of rows live on the host, and Python functions run there. So look-ups whose keys follow from the arguments come
before the device's part of a Program, and steps of tables and Python functions behind it. Each part is a Program; the
one in the middle is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from framework.errors import NotSupportedError
from framework.graph.ir import Operation, Program, Value


@dataclass
class CutProgram:
    """Some operations of a Program as a Program of their own.

    Attributes:
        program: the operations.
        reads: what its inputs are, as values of the whole Program.
        makes: what its results are there.
    """

    program: Program
    reads: list[Value]
    makes: list[Value]


@dataclass
class Cut:
    """A Program in parts; `before` or `after` is None where the host has nothing to do then."""

    before: CutProgram | None
    device: CutProgram
    after: CutProgram | None


def cut(program: Program) -> Cut | None:
    """The parts of a Program; None where the device runs all of it.

    Raises:
        NotSupportedError: an effect lies where it cannot be cut off; names the operator and the line that uses it.
    """
    _expect_pure_blocks(program)
    if all(op.info.pure for op in program.block):
        return None
    last = _last(program)
    first = _first(program, last)
    hosted = {id(op) for op in (*first, *last)}
    middle = [op for op in program.block if id(op) not in hosted]
    _expect_end(program, last)
    after = _part(program, last, [v for v in program.results if v in _made(last)]) if last else None
    elsewhere = _made(first) | _made(last)
    makes = [v for v in program.results if v not in elsewhere]
    makes += [v for v in (after.reads if after else ()) if v in _made(middle)]
    device = _part(program, middle, makes, states=True)
    wanted = {*device.reads, *(after.reads if after else ()), *program.results}
    before = _part(program, first, [v for v in _made(first) if v in wanted]) if first else None
    return Cut(before, device, after)


def _last(program: Program) -> list[Operation]:
    """From the first effect that is no look-up on, all effects and what depends on them.

    A look-up may come first: it reads what earlier runs have written.
    """
    found: list[Operation] = []
    made: set[Value | None] = set()
    for op in program.block:
        has_effect = not op.info.pure and (not op.info.reads_table or bool(found))
        if has_effect or not made.isdisjoint(op.inputs):
            found.append(op)
            made.update(op.outputs)
    return found


def _first(program: Program, last: Sequence[Operation]) -> list[Operation]:
    """Look-ups that come before all other effects, and what makes their keys of the arguments."""
    behind = {id(op) for op in last}
    known: set[Value | None] = {*program.inputs, *program.constants, None}
    can: list[Operation] = []
    for op in program.block:
        if id(op) in behind:
            continue
        if known.issuperset(op.inputs):
            can.append(op)
            known.update(op.outputs)
        elif not op.info.pure:
            raise NotSupportedError(
                f"{_who(op)}: its keys depend on weights or other states, which lie on the device; on a device they "
                "must follow from the Program's arguments. Look them up in a Program of their own, or run with "
                "--device cpu"
            )
    wanted: set[Value | None] = set()
    found: list[Operation] = []
    for op in reversed(can):
        if not op.info.pure or not wanted.isdisjoint(op.outputs):
            found.append(op)
            wanted.update(op.inputs)
    return found[::-1]


def _expect_pure_blocks(program: Program) -> None:
    for op in program.block:
        inside = [inner for block in op.blocks for inner in block.operations() if not inner.info.pure]
        if inside:
            raise NotSupportedError(
                f"no device but the CPU runs {_who(inside[0])}: it has effects outside of the Program and is in the "
                f"body of {op.name}. Call it on the Program's results, or run with --device cpu"
            )


def _expect_end(program: Program, last: Sequence[Operation]) -> None:
    """Refuses effects in the middle: what follows from them would run on the host too, or cannot run there."""
    made = set(_made(last))
    follow = [_who(op) for op in last if op.info.heavy]
    follow += [f"the new value of {s.name or s}" for s, new in program.updates.items() if new in made]
    if follow:
        effect = next(op for op in last if not op.info.pure)
        raise NotSupportedError(
            f"no device but the CPU runs {_who(effect)} in the middle of a Program: it has effects outside of it, and "
            f"{follow[0]} follows from it. Call it on the Program's results, or run with --device cpu"
        )


def _who(op: Operation) -> str:
    return f"{op.name} (used at {op.where})" if op.where else op.name


def _made(ops: Iterable[Operation]) -> dict[Value, None]:
    """What operations define, in order."""
    return {v: None for op in ops for v in op.outputs}


def _part(whole: Program, ops: Sequence[Operation], makes: Iterable[Value], *, states: bool = False) -> CutProgram:
    """Operations as a Program; with `states` it has the whole's states and their new values, else they are inputs."""
    part, values, reads = Program(), dict[Value, Value](), list[Value]()

    def here(v: Value) -> Value:
        if v not in values:
            if v in whole.constants:
                values[v] = part.add_constant(whole.constants[v])
            elif states and v in whole.states:
                values[v] = part.add_state(whole.states[v])
            else:
                reads.append(v)
                values[v] = part.add_input(v.shape, v.dtype, v.name)
        return values[v]

    for op in ops:
        inputs = [None if v is None else here(v) for v in op.inputs]
        for v in op.outputs:
            values[v] = Value(part, v.kind, v.shape, v.dtype, v.name)
            values[v].static = v.static
        outputs = [values[v] for v in op.outputs]
        part.block.ops.append(Operation(op.info, inputs, outputs, op.attrs, op.where, op.blocks))
    makes = list(dict.fromkeys(makes))
    part.results = [here(v) for v in makes]
    if states:
        part.updates = {here(s): here(new) for s, new in whole.updates.items()}
    return CutProgram(part, reads, makes)
