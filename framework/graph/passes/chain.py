"""Element-wise operators that feed only each other become one `chain`: one pass over memory in place of one each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass, place_of
from framework.graph.passes.rewriter import DataReaders, shape_only
from framework.graph.reports import PassReport
from framework.ops import registry
from framework.ops.tape import Statement, tape_text
from framework.precision import HALF_TYPES

MAX_STATEMENTS = 32
MAX_STREAMS = 16  # inputs of more than one number; more of them defeat the processor's prefetching


@graph_pass(
    after=(
        "merge_equal_operations",
        "drop_dead_code",
        "fold_batch_norm",
        "fuse_batch_norm",
        "fuse_batch_norm_grad",
        "fuse_bias",
        "fuse_residual",
        "fuse_activation",
        "update_early",
        "recompute_activations",
    ),
)
def fuse_chains(program: Program, report: PassReport) -> None:
    """Trees of element-wise operators of one shape, whose inner results nobody else reads, become one `chain`.

    It runs behind the passes that fold element-wise operators into something better. Sizes of the trace decide only
    whether it pays: a chain is right for all shapes, since broadcasting is associative. A gradient's `sum_to` that sums
    nothing is passed over, and what asks for the shape of an inner result asks for that of an input; the chain then
    refuses shapes for which that would be another.
    """
    merged: dict[Operation, list[Operation]] = {}  # last operation of a chain -> the chain, and what checks its shape
    gone: set[Operation] = set()
    stand_ins: dict[Value, Value] = {}  # inner results -> inputs of their shape
    grower = _Grower(program, report)
    for op in reversed(program.block.ops):
        if op in gone or not _is_elementwise(op):
            continue
        members = grower.grow(op, gone)
        computing = sum(not _is_sum(m) for m in members)
        if computing < 2:
            if not _computes_half(op):
                continue
            members = {op}
        likes = grower.likes(members, op)
        stand_ins |= likes
        chain, *checks = merged[op] = _emit(program, [m for m in program.block if m in members], likes)
        gone.update(members - {op})
        y = checks[-1].outputs[0] if checks else chain.outputs[0]
        report.match(f"{y} = {computing} operations: {chain.attr('tape')}{place_of(op)}")
    program.block.ops = [new for op in program.block if op not in gone for new in merged.get(op, [op])]
    for op in program.block if stand_ins else ():
        pairs = zip(op.inputs, shape_only(op), strict=True)
        op.inputs = [stand_ins.get(v, v) if v is not None and shape else v for v, shape in pairs]


def _is_elementwise(op: Operation) -> bool:
    return op.info.is_elementwise and bool(op.outputs[0].shape)


def _computes_half(op: Operation) -> bool:
    """Whether it would run on copies in float32, which a chain makes block by block."""
    return op.info.takes_half and any(v is not None and v.dtype in HALF_TYPES for v in (*op.inputs, *op.outputs))


def _repeats(op: Operation) -> bool:
    """Whether a chain can make what the operation gives without reading that from memory: one value spread out."""
    if not op.info.spreads or not any(a["name"] == "axes" for a in op.info.attrs):
        return op.info.spreads
    axes = op.attr("axes")
    return isinstance(axes, Sequence) and not axes  # a single axis may be written as a number, such as 0


def _is_sum(op: Operation) -> bool:
    return op.name == "sum_to"


def _like(op: Operation) -> Value | None:
    return op.inputs[-1] if _repeats(op) else None


def _data(op: Operation) -> list[Value]:
    """What a member reads but for shapes."""
    given = op.inputs[:-1] if _repeats(op) or _is_sum(op) else op.inputs
    return [v for v in given if v is not None]


def _bytes(value: Value) -> int:
    return math.prod(value.shape) * (1 if value.dtype == "bool" else 2 if value.dtype in HALF_TYPES else 4)


class _Grower:
    """Finds, from its last operation, the largest tree that may become one chain."""

    def __init__(self, program: Program, report: PassReport) -> None:
        self.program = program
        self.readers = DataReaders(program)
        self.report = report
        self.producers = program.producers()
        self.ops = program.block.ops
        self.has_gradients = any(map(_is_sum, self.ops))
        self.position = {op: i for i, op in enumerate(self.ops)}

    def grow(self, root: Operation, taken: set[Operation]) -> set[Operation]:
        """The members, `root` among them."""
        members = {root}
        while True:
            found = next((p for p in self._candidates(members, taken) if not self._why_not(p, members, root)), None)
            if found is None:
                break
            members.add(found)
        for p in self._candidates(members, taken):
            reader = next(op for op in self.readers.of(p.outputs[0]) if op in members)
            self.report.miss(chain_of(p, reader), self._why_not(p, members, root))
        return members

    def likes(self, members: set[Operation], root: Operation) -> dict[Value, Value]:
        """Of each inner result whose shape is read elsewhere, an input of that shape."""
        found = {}
        for op in members - {root}:
            v = op.outputs[0]
            if not self.readers.of_shape(v) <= members and (like := self._stand_in(v, members)) is not None:
                found[v] = like
        return found

    def _stand_in(self, value: Value, members: set[Operation]) -> Value | None:
        """An input of the chain that takes part in computing an inner value, and has the value's shape.

        Only where gradients are taken: a Program without them may come to lie in a file, which is not traced again for
        shapes that refute it.
        """
        pending = [self.producers[value]] if self.has_gradients else []
        while pending:
            for v in _data(pending.pop()):
                p = self.producers.get(v)
                if p in members:
                    pending.append(p)
                elif v.shape == value.shape and self.program.equal_shapes(v, value):
                    return v
        return None

    def _candidates(self, members: set[Operation], taken: set[Operation]) -> Iterator[Operation]:
        """Operations of the root's shape that make an input of a member."""
        shapes = {op.outputs[0].shape for op in members}
        for op in members:
            for v in _data(op) if not _repeats(op) else ():
                p = self.producers.get(v)
                fits = p is not None and p not in members and p not in taken and p.outputs[0].shape in shapes
                if p is not None and fits and (_is_elementwise(p) or _repeats(p) or self._sums_nothing(p)):
                    yield p

    def _sums_nothing(self, op: Operation) -> bool:
        """Whether it is the gradient of a broadcast that, by the shapes of the trace, repeated nothing."""
        x, y = op.inputs[0], op.outputs[0]
        return _is_sum(op) and x is not None and x.shape == y.shape and self.program.equal_shapes(x, y)

    def _why_not(self, p: Operation, members: set[Operation], root: Operation) -> str:
        """Why `p` cannot join, or nothing."""
        value = p.outputs[0]
        outside = [op for op in self.readers.of(value) if op not in members]
        if outside or value in self.readers.kept:
            return self.readers.why_not_only(value, p, members)
        likes = {like for op in (*members, p) if (like := _like(op)) is not None}
        if len(likes) > 1:
            return "two of its values are spread over shapes that could differ"
        likes.update(v for op in (*members, p) if _is_sum(op) and (v := op.inputs[1]) is not None)
        if any(like is op.outputs[0] for like in likes for op in (*members, p)):
            return "it takes its shape from a value inside of the chain"
        for v in (op.outputs[0] for op in (*members, p) if op is not root):
            if not (asked := self.readers.of_shape(v)) <= members and self._stand_in(v, {*members, p}) is None:
                other = next(op for op in asked if op not in members)
                return f"{other.name} {other.outputs[0]} asks for the shape of {v}, and no input has it"
        if len(members) >= MAX_STATEMENTS or sum(bool(v.shape) for v in _inputs([*members, p])) > MAX_STREAMS:
            return "the chain has its full length"
        return self._why_costly(p, members, root)

    def _why_costly(self, p: Operation, members: set[Operation], root: Operation) -> str:
        """Computing `p` later must not keep more bytes alive than it saves, past where other large values are made."""
        end = self.position[root]
        kept_longer = [v for v in _data(p) if self._dies_before(v, end, members)]
        if sum(map(_bytes, kept_longer)) <= _bytes(p.outputs[0]):
            return ""
        between = self.ops[self.position[p] + 1 : end]
        large = next((op for op in between if op not in members and self._is_large(op, p)), None)
        return f"its inputs would have to be kept while {large.name} {large.outputs[0]} is made" if large else ""

    def _dies_before(self, v: Value, end: int, members: set[Operation]) -> bool:
        if v.kind != "temporary" or v in self.readers.kept or len(v.shape) == 0:
            return False
        return all(self.position[op] < end for op in self.readers.of(v) if op not in members)

    def _is_large(self, op: Operation, p: Operation) -> bool:
        return any(_bytes(v) >= _bytes(p.outputs[0]) for v in op.outputs)


def _inputs(members: list[Operation]) -> list[Value]:
    """What a chain of these operations reads, each once, in order."""
    inner = {op.outputs[0] for op in members}
    return [v for v in dict.fromkeys(v for op in members for v in _data(op)) if v not in inner]


def _emit(program: Program, members: list[Operation], stand_ins: Mapping[Value, Value]) -> list[Operation]:
    """The chain of operations in program order, whose result is the last one's, and what refuses its shape.

    What a sum that sums nothing reads takes part in the result, and its `like` broadcasts to that. A stand-in takes
    part in the inner result that it stands for. So where the result broadcasts to these, all of them have one shape.
    """
    inputs = _inputs(members)
    tape = _Tape(inputs)
    for op in members:
        tape.add(op)
    tape.finish(members[-1].outputs[0])
    like = next((like for op in members if (like := _like(op)) is not None), None)
    info, last = registry.OPS["chain"], members[-1]
    attrs = info.attr_values({"tape": tape_text(tape.statements)})
    ops = [program.make_operation(info, [like, *inputs], attrs, last.where)]
    sums, refuse = [op for op in members if _is_sum(op)], registry.OPS["broadcast_like"]
    for a, b in ((*_data(op), op.outputs[0]) for op in sums):
        program.assume_equal_shapes(a, b)
    for value, stand_in in stand_ins.items():
        program.assume_equal_shapes(value, stand_in)
    for shape in dict.fromkeys([*(op.inputs[1] for op in sums), *stand_ins.values()]):
        ops.append(program.make_operation(refuse, [ops[-1].outputs[0], shape], (), last.where))
    ops[-1].outputs = last.outputs
    return ops


class _Tape:
    """Writes the statements of a chain. What is half is float32 from its first use to the result: rounded once.

    A cast that somebody wrote rounds all the same; those of the precision policy are left out.
    """

    def __init__(self, inputs: list[Value]) -> None:
        self.statements: list[Statement] = []
        self._names = {v: f"x{i}" for i, v in enumerate(inputs)}
        self._half = {v for v in inputs if v.dtype in HALF_TYPES}  # those whose name still stands for half values

    def add(self, op: Operation) -> None:
        """One member; inputs come before it."""
        y, inputs = op.outputs[0], _data(op)
        if _is_sum(op):
            self._names[y] = self._names[inputs[0]]
            if inputs[0] in self._half:
                self._half.add(y)
        elif _repeats(op):
            self._names[y] = self._state(op.name, (*(self._names[v] for v in inputs), "like"), _attrs(op))
            if y.dtype in HALF_TYPES:
                self._half.add(y)
        elif op.name == "cast":
            self._cast(op, inputs[0], y)
        else:
            self._names[y] = self._state(op.name, tuple(self._wide(v) for v in inputs), _attrs(op))

    def _cast(self, op: Operation, x: Value, y: Value) -> None:
        name, floats = self._wide(x), (*HALF_TYPES, "float32")
        if y.dtype in floats and x.dtype in floats and (op.attr("elidable") or y.dtype == "float32"):
            self._names[y] = name
            return
        self._names[y] = self._state("cast", (name,), {"dtype": y.dtype})
        if y.dtype in HALF_TYPES:
            self._half.add(y)

    def finish(self, y: Value) -> None:
        """Rounds the result where it is half and not rounded yet; an element-wise statement makes it."""
        name = self._names[y]
        spread = bool(self.statements) and registry.OPS[self.statements[-1].operator].spreads
        rounded = y.dtype not in HALF_TYPES or y in self._half
        if spread or not (rounded and self.statements and name == f"t{len(self.statements) - 1}"):
            self._state("cast", (name,), {"dtype": y.dtype})

    def _wide(self, v: Value) -> str:
        if v in self._half:
            self._names[v] = self._state("cast", (self._names[v],), {"dtype": "float32"})
            self._half.remove(v)
        return self._names[v]

    def _state(self, operator: str, arguments: tuple[str, ...], attrs: dict[str, object]) -> str:
        self.statements.append(Statement(operator, arguments, attrs))
        return f"t{len(self.statements) - 1}"


def _attrs(op: Operation) -> dict[str, object]:
    pairs = zip(op.info.attrs, op.attrs, strict=True)
    return {a["name"]: value for a, value in pairs if a["required"] or (value != a["default"] and a["type"] != "ints")}
