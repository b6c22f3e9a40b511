"""Tools that passes share: who reads a value, and a new block of operations while the old one is walked."""

from __future__ import annotations

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import name_of, place_of
from framework.ops import dispatch


class Readers:
    """Who reads each value of a Program, as it stood when this was made."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._users = program.users()
        self._kept = program.kept()

    def of(self, value: Value) -> list[Operation]:
        """The operations that read a value, in program order."""
        return self._users.get(value, [])

    def only(self, value: Value) -> Operation | None:
        """The only reader of a value that does not leave the Program."""
        users = self.of(value)
        return users[0] if len(users) == 1 and value not in self._kept else None

    def why_not_only(self, value: Value, reader: Operation) -> str:
        """Why `reader` is not the only one that needs `value`: names another reader, result or update."""
        others = [op for op in self.of(value) if op is not reader]
        if others:
            return f"{value} is also read by {name_of(others[0])}{place_of(others[0])}"
        if value in self._program.results:
            return f"{value} is a result of the program"
        if value in self._kept:
            return f"{value} is the new value of a state"
        return f"{value} is read twice by {name_of(reader)}"


class Rewriter(Readers):
    """Emits operations into a new block while walking the old one."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program
        self.ops: list[Operation] = []

    def emit(self, name: str, inputs: list[Value | None], where: str, **attrs: object) -> Value:
        """Adds an operation with one output before the one at hand."""
        info = dispatch.OPS[name]
        op = self.program.make_operation(info, inputs, info.attr_values(attrs), where)
        self.ops.append(op)
        return op.outputs[0]
