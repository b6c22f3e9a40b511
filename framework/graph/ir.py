"""The intermediate representation: a Program is one Block of operations over typed values in single assignment.

A value carries the shape it had while tracing; the native plan infers shapes anew for every set of input shapes. What
a Program reads and updates from call to call are its states (parameters, optimizer slots, running statistics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework import _core
from framework.graph.reports import PassReport
from framework.ops.registry import OpInfo
from framework.tensors import Tensor
from framework.value import Kind as Kind
from framework.value import Value as Value

Pair = tuple[tuple[int, ...], int, int]  # which block, and two values' numbers


@dataclass(eq=False)
class Operation:
    """One application of an operator; `attrs` in signature order, `where` the user's line that caused it."""

    info: OpInfo
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: tuple[Any, ...]
    where: str = ""
    blocks: list[Program] = field(default_factory=list)  # bodies of control flow, which read their inputs only

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.info.name

    def attr(self, name: str) -> Any:
        """One attribute by name."""
        return self.attrs[[a["name"] for a in self.info.attrs].index(name)]

    def with_attrs(self, **changes: Any) -> tuple[Any, ...]:
        """The attributes with some replaced."""
        pairs = zip(self.info.attrs, self.attrs, strict=True)
        return tuple(changes.get(spec["name"], value) for spec, value in pairs)

    def input(self, name: str) -> Value | None:
        """One input by its name in the signature; None when it is absent."""
        i = [a["name"] for a in self.info.inputs].index(name)
        return self.inputs[i] if i < len(self.inputs) else None

    def __str__(self) -> str:
        left = ", ".join(f"{v}: {v.type_text}" for v in self.outputs)
        inputs = ["-" if v is None else str(v) for v in self.inputs]
        shown = [
            f"{spec['name']}={_plain(value)!r}"
            for spec, value in zip(self.info.attrs, self.attrs, strict=True)
            if spec["required"] or _plain(value) != _plain(spec["default"])
        ]
        call = f"{self.name}({', '.join(inputs + shown)})"
        return f"{left} = {call}" if left else call


def _plain(value: Any) -> Any:
    """Sequences as lists, so that (2, 2) and [2, 2] print and compare alike."""
    return list(value) if isinstance(value, (tuple, list)) else value


def _declaration(v: Value) -> str:
    return f"{v}: {v.type_text}" + (f" {v.name!r}" if v.name else "")


@dataclass
class Block:
    """A straight line of operations."""

    ops: list[Operation] = field(default_factory=list)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)


class Program:
    """Inputs, states and constants; one block of operations; results; and the states' new values.

    Attributes:
        states: each state's value and the Tensor that holds its data between runs.
        constants: each constant's value and its data.
        updates: new value of a state after a run, by the state's value.
        assumptions: pairs of values that a pass found to have one shape and takes to always have; an operator refuses
            shapes that disprove it, and the function is traced again for them.
        unequal: pairs, as `pair_of` gives them, that passes must not take for equal, whatever the shapes of the trace.
            All traces of one function share it, and each adds the pairs that it finds unequal.
        shape_reads: where Python read an input-dependent shape while tracing; when not empty, the Program is only
            right for the input shapes it was traced with.
        reports: what each pass that ran on it found.
        on_shape_read: called when Python reads an input-dependent shape; None when it is not being traced.
    """

    def __init__(self) -> None:
        self._ids = 0
        self.inputs: list[Value] = []
        self.states: dict[Value, Tensor] = {}
        self.constants: dict[Value, Any] = {}
        self.block = Block()
        self.results: list[Value] = []
        self.updates: dict[Value, Value] = {}
        self.assumptions: list[tuple[Value, Value]] = []
        self.unequal: set[Pair] = set()
        self._path: tuple[int, ...] = ()  # which block of the Program it is
        self.shape_reads: list[str] = []
        self.reports: list[PassReport] = []
        self.on_shape_read: Callable[[Value], None] | None = None

    def next_id(self) -> int:
        """A number that no value of this Program has yet."""
        self._ids += 1
        return self._ids - 1

    def add_input(self, shape: tuple[int, ...], dtype: str, name: str | None = None) -> Value:
        """Declares the next input."""
        value = Value(self, "input", shape, dtype, name)
        self.inputs.append(value)
        return value

    def add_state(self, tensor: Tensor) -> Value:
        """Declares a tensor whose data lives on between runs."""
        value = Value(self, "state", tensor.shape, tensor.dtype, tensor.name)
        self.states[value] = tensor
        return value

    def add_constant(self, array: Any) -> Value:
        """Declares fixed data (a native Array)."""
        value = Value(self, "constant", array.shape, array.dtype)
        self.constants[value] = array
        return value

    def add_operation(
        self, info: OpInfo, inputs: Iterable[Value | None], attrs: tuple[Any, ...], where: str = ""
    ) -> Operation:
        """Appends an operation, its outputs typed by the operator's shape rule."""
        op = self.make_operation(info, inputs, attrs, where)
        self.block.ops.append(op)
        return op

    def make_operation(
        self, info: OpInfo, inputs: Iterable[Value | None], attrs: tuple[Any, ...], where: str = ""
    ) -> Operation:
        """An operation with typed outputs that stands in no block yet, for passes.

        Raises:
            ShapeError, DTypeError, AttributeValueError: the operator's shape rule refuses the inputs.
        """
        values = list(inputs)
        types = _core.infer(
            info.native,
            [None if v is None else v.shape for v in values],
            [None if v is None else v.dtype for v in values],
            attrs,
        )
        outputs = [Value(self, "temporary", shape, dtype) for shape, dtype in types]
        for out in outputs:
            out.static = all(v is None or v.static for v in values)
        return Operation(info, values, outputs, attrs, where)

    def operations(self) -> Iterator[Operation]:
        """All operations, those inside of blocks after the one that has them."""
        for op in self.block:
            yield op
            for block in op.blocks:
                yield from block.operations()

    def all_assumptions(self) -> set[Pair]:
        """Its own assumptions and those of its blocks, as pairs that mean the same in another trace."""
        return {program.pair_of(a, b) for program in self.programs() for a, b in program.assumptions}

    def programs(self) -> Iterator[Program]:
        """Itself and all blocks."""
        yield self
        for op in self.block:
            for block in op.blocks:
                yield from block.programs()

    def share_unequal(self, unequal: set[Pair], path: tuple[int, ...] = ()) -> None:
        """Makes it and its blocks, before passes run, know and note pairs of unequal values in `unequal`."""
        self.unequal, self._path = unequal, path
        for i, op in enumerate(self.block):
            for k, block in enumerate(op.blocks):
                block.share_unequal(unequal, (*path, i, k))

    def learn_from(self, refuted: Program) -> None:
        """Before passes run on it: takes none of the shapes for equal that an earlier trace wrongly did.

        It was traced with the inputs that refuted the earlier one. Each time at least one pair more is unequal, so that
        tracing again comes to an end.
        """
        self.share_unequal(refuted.unequal)
        shapes = {(p._path, v.id): v.shape for p in self.programs() for v in p.values()}
        pairs = refuted.all_assumptions()
        self.unequal |= {p for p in pairs if shapes.get(p[:2]) != shapes.get((p[0], p[2]))} or pairs

    def values(self) -> Iterator[Value]:
        """All values but those of blocks."""
        yield from (*self.inputs, *self.states, *self.constants)
        for op in self.block:
            yield from op.outputs

    def pair_of(self, a: Value, b: Value) -> Pair:
        """Two values by numbers that a trace of the same function with other shapes gives them too."""
        return (self._path, min(a.id, b.id), max(a.id, b.id))

    def clone(self) -> Program:
        """The same operations over new values; states and constants share their data."""
        new, values = Program(), dict[Value, Value]()

        def again(v: Value) -> Value:
            values[v] = Value(new, v.kind, v.shape, v.dtype, v.name)
            values[v].static = v.static
            return values[v]

        new.inputs = [again(v) for v in self.inputs]
        new.states = {again(v): t for v, t in self.states.items()}
        new.constants = {again(v): a for v, a in self.constants.items()}
        for op in self.block:
            inputs = [None if v is None else values[v] for v in op.inputs]
            outputs = [again(v) for v in op.outputs]
            blocks = [block.clone() for block in op.blocks]
            new.block.ops.append(Operation(op.info, inputs, outputs, op.attrs, op.where, blocks))
        new.results = [values[v] for v in self.results]
        new.updates = {values[s]: values[v] for s, v in self.updates.items()}
        new.assumptions = [(values[a], values[b]) for a, b in self.assumptions if a in values and b in values]
        new.shape_reads = list(self.shape_reads)
        new.unequal, new._path = self.unequal, self._path
        return new

    def users(self) -> dict[Value, list[Operation]]:
        """Operations that read each value, in program order."""
        found: dict[Value, list[Operation]] = {}
        for op in self.block:
            for v in op.inputs:
                if v is not None:
                    found.setdefault(v, []).append(op)
        return found

    def producers(self) -> dict[Value, Operation]:
        """The operation that defines each temporary."""
        return {v: op for op in self.block for v in op.outputs}

    def kept(self) -> set[Value]:
        """Values that leave the Program: results and states' new values."""
        return {*self.results, *self.updates.values()}

    def replace(self, old: Value, new: Value) -> None:
        """Makes every reader of `old`, the results and the updates read `new` instead."""
        for op in self.block:
            op.inputs = [new if v is old else v for v in op.inputs]
        self.results = [new if v is old else v for v in self.results]
        self.updates = {s: new if v is old else v for s, v in self.updates.items()}

    def equal_shapes(self, a: Value | None, b: Value | None) -> bool:
        """Whether a pass may take two values to have one shape: it must then call `assume_equal_shapes`."""
        if a is None or b is None:
            return False
        if a.shape != b.shape:
            self.unequal.add(self.pair_of(a, b))
        return self.pair_of(a, b) not in self.unequal

    def assume_equal_shapes(self, a: Value, b: Value) -> None:
        """Notes that an operator which a pass emits is only right while `a` and `b` have one shape."""
        self.assumptions.append((a, b))

    def __str__(self) -> str:
        return self.text({})

    def text(self, comments: Mapping[int, str]) -> str:
        """The Program as it prints, with a comment at the end of some operations' lines, by their number."""
        inputs = ", ".join(_declaration(v) for v in self.inputs)
        lines = [f"program({inputs}) {{"]
        lines += [f"  state {_declaration(v)}" for v in self.states]
        lines += [f"  constant {v}: {v.type_text}" for v in self.constants]
        for i, op in enumerate(self.block):
            lines.append(f"  {op}" + (f"  # {comments[i]}" if i in comments else ""))
            lines += [
                f"    {line}" for block in op.blocks for line in str(block).replace("program", "block", 1).split("\n")
            ]
        lines += [f"  update {s} = {v}" for s, v in self.updates.items()]
        lines += [f"  return {', '.join(map(str, self.results))}", "}"]
        return "\n".join(lines)
