"""Tools that passes share: who reads a value, and a new block of operations while the old one is walked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import name_of, place_of
from framework.ops import registry


class Readers:
    """Who reads each value of a Program, as it stood when this was made."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._users = program.users()
        self.kept = program.kept()

    def of(self, value: Value) -> list[Operation]:
        """The operations that read a value, in program order."""
        return self._users.get(value, [])

    def only(self, value: Value) -> Operation | None:
        """The only reader of a value that does not leave the Program."""
        users = self.of(value)
        return users[0] if len(users) == 1 and value not in self.kept else None

    def why_not_only(self, value: Value, reader: Operation, group: Collection[Operation] = ()) -> str:
        """Why `reader` (or `group`) is not alone in needing `value`: names another reader, result or update."""
        others = [op for op in self.of(value) if op not in (group or (reader,))]
        if others:
            return f"{value} is also read by {name_of(others[0])}{place_of(others[0])}"
        if value in self._program.results:
            return f"{value} is a result of the program"
        if value in self.kept:
            return f"{value} is the new value of a state"
        return f"{value} is read twice by {name_of(reader)}"

    def depends(self, value: Value, op: Operation) -> bool:
        """Whether the results of `op` take part in computing `value`."""
        if value.kind != "temporary":
            return False
        known = set(op.outputs)
        for later in self._program.block.ops[self._program.block.ops.index(op) + 1 :]:
            if not known.isdisjoint(later.inputs):
                known.update(later.outputs)
        return value in known


class DataReaders(Readers):
    """Readers of a value's data: who reads its shape only can read it elsewhere."""

    def of(self, value: Value) -> list[Operation]:
        """The operations that read a value's data, in program order."""
        return [op for op in super().of(value) if any(v is value and not shape for v, shape in _with_shape_only(op))]

    def of_shape(self, value: Value) -> set[Operation]:
        """The operations that read no more than a value's shape."""
        return {*super().of(value)} - {*self.of(value)}

    def refer_to_shape_of(self, value: Value | None, gone: Sequence[Operation]) -> None:
        """What reads only the shape of the first results of `gone` reads that of `value`, which is the same."""
        for v in (op.outputs[0] for op in gone):
            for reader in super().of(v):
                pairs = _with_shape_only(reader)
                reader.inputs = [value if read is v and shape else read for read, shape in pairs]


def _with_shape_only(op: Operation) -> list[tuple[Value | None, bool]]:
    """Each input, and whether it is read for its shape only."""
    return list(zip(op.inputs, shape_only(op), strict=True))


def shape_only(op: Operation) -> list[bool]:
    """Of each input, whether only its shape is read."""
    last = len(op.info.inputs) - 1
    return [bool(op.info.inputs[min(i, last)]["shape_only"]) for i in range(len(op.inputs))]


class Rewriter(Readers):
    """Emits operations into a new block while walking the old one."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program
        self.ops: list[Operation] = []

    def emit(self, name: str, inputs: list[Value | None], where: str, **attrs: object) -> Value:
        """Adds an operation with one output before the one at hand."""
        info = registry.OPS[name]
        op = self.program.make_operation(info, inputs, info.attr_values(attrs), where)
        self.ops.append(op)
        return op.outputs[0]


def in_order(program: Program, ops: Sequence[Operation]) -> list[Operation]:
    """The operations, each at its place in `ops` or earlier: just before the first that reads its result."""
    producers = {v: op for op in ops for v in op.outputs}
    ordered: list[Operation] = []
    done: set[Operation] = set()
    for first in ops:
        pending = [first]
        while pending:
            op = pending[-1]
            missing = [producers[v] for v in op.inputs if v in producers and producers[v] not in done]
            if missing and op not in done:
                pending += reversed(missing)
                continue
            pending.pop()
            if op not in done:
                done.add(op)
                ordered.append(op)
    return ordered
