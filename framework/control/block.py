"""Blocks: bodies of control flow, traced into Programs of their own, and the operations that have them.

A block reads nothing from around it directly: what its function captures becomes one more input of the block and of
the operation, so passes see from outside all that an operation with blocks reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.autograd import saved, tape
from framework.context import context
from framework.errors import ShapeError, TraceError
from framework.graph.grads import Gradients
from framework.graph.ir import Program, Value
from framework.graph.native import control_info
from framework.graph.trace import Trace, traced, user_line
from framework.graph.trees import flatten, unflatten
from framework.tensors import Tensor

_Key = tuple[Value, Any]


def input_like(block: Program, value: Value) -> Value:
    """One more input of a block, like a value around it."""
    mine = block.add_input(value.shape, value.dtype, value.name)
    mine.static = value.static
    return mine


class _OuterGradients(Gradients):
    """Gradients as the body of a block sees them: those from around it, which it cannot change."""

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent._add_input)
        self._parent = parent

    def get(self, leaf: Tensor) -> Tensor | None:
        """What `leaf.grad` holds around the block."""
        return self._parent.grads.get(leaf)

    def set(self, leaf: Tensor, value: Tensor | None) -> None:
        """Refuses `backward`, which would leave a value of the block in `grad`."""
        raise TraceError(
            f"backward: cannot run in the body of cond, while_loop or scan, at {user_line()}; use framework.gradients"
        )


class BlockTrace(Trace):
    """Collects a block while its function runs inside another trace.

    Attributes:
        captured: what the function reads from around it: a tensor, its value there, and the block's input. By value and
            history, as the gradient of one tensor is not that of another with the same value.
    """

    takes_resources = False

    def __init__(self, parent: Trace) -> None:
        super().__init__()
        self._parent = parent
        self.captured: dict[_Key, tuple[Tensor, Value, Value]] = {}
        self.grads = _OuterGradients(parent)

    def value_of(self, t: Tensor) -> Value:
        """The block's value for a tensor; what comes from around the block becomes an input of it."""
        if t._value is not None and t._value.program is self.program:
            return t._value
        if t._value is None and not t.persistable and not t.requires_grad:
            return super().value_of(t)  # data: a constant of the block
        outer = self._parent.value_of(t)
        key = (outer, tape.key_of(t))
        if key not in self.captured:
            self.captured[key] = (t, outer, input_like(self.program, outer))
        return self.captured[key][2]

    def now(self, t: Tensor) -> Value | None:
        """As the traces around it know it."""
        return t._value if t._value is not None else self._parent.now(t)

    def update(self, t: Tensor, new: Tensor) -> None:
        """Refuses `set`: what a block changes leaves it as a result."""
        raise TraceError(
            f"set: the body of cond, while_loop or scan cannot set {t.name or 'a tensor'}, at {user_line()}; return "
            "the new value and set it outside (layers in training mode and random numbers set buffers)"
        )

    def note_shape_read(self, value: Value) -> None:
        """Ties the whole Program to its shapes."""
        self._parent.note_shape_read(value)


class Body:
    """A traced block and how its function's result was built of tensors.

    Attributes:
        block: the Program; its inputs are those the function got, then what it captured.
        own: how many inputs the function got.
        captured: the tensors from around the block that it reads, with their values there.
        structure: of the function's result; see `unflatten`.
    """

    def __init__(self, function: Callable[..., Any], types: Sequence[Value]) -> None:
        """Traces `function` on values like those of `types`, inside the active trace."""
        parent = context.trace
        assert parent is not None
        trace = BlockTrace(parent)
        self.block, self.own = trace.program, len(types)
        inputs = [input_like(self.block, v) for v in types]
        leaves: list[Tensor] = []
        context.trace = trace
        try:
            self.structure = flatten(function(*[traced(v) for v in inputs]), leaves)
            self.block.results = [trace.value_of(t) for t in leaves]
        finally:
            context.trace = parent
            self.block.on_shape_read = None
        self.captured = {key: (t, outer) for key, (t, outer, _) in trace.captured.items()}

    def take(self, captured: dict[_Key, tuple[Tensor, Value]]) -> None:
        """Gives the block the inputs `captured` in that order, whether it reads them or not."""
        mine = dict(zip(self.captured, self.block.inputs[self.own :], strict=True))
        del self.block.inputs[self.own :]
        for key, (_, outer) in captured.items():
            if key in mine:
                self.block.inputs.append(mine[key])
            else:
                input_like(self.block, outer)
        self.captured = captured


def share_captures(*bodies: Body) -> list[Tensor]:
    """Makes the blocks of one operation take the same captured inputs; returns the tensors."""
    joint: dict[_Key, tuple[Tensor, Value]] = {}
    for body in bodies:
        joint = body.captured | joint
    for body in bodies:
        body.take(joint)
    return [t for t, _ in joint.values()]


def row_of(value: Value) -> Value:
    """A stand-in for one row of a value; it is in no Program's block."""
    if not value.shape:
        raise ShapeError("scan: a column has no axes; it must have one for the steps")
    row = Value(value.program, "temporary", value.shape[1:], value.dtype)
    row.static = value.static
    return row


def add_operation(
    kind: str,
    blocks: list[Program],
    inputs: Sequence[Tensor],
    attrs: tuple[Any, ...],
    node_of: Callable[[list[Any], list[Tensor]], tape.Node],
) -> tuple[Tensor, ...]:
    """Records an operation with blocks in the active trace; `node_of` makes its tape node of edges and outputs."""
    trace = context.trace
    assert trace is not None
    outputs = trace.record(control_info(kind, blocks), inputs, attrs)
    trace.program.block.ops[-1].blocks = blocks
    if context.grad_enabled and any(t.requires_grad for t in inputs):
        tape.attach(node_of([saved.edge_of(t) for t in inputs], list(outputs)), outputs)
    return outputs


def results(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """Tensors in the structure that a body's function returned."""
    return unflatten(structure, iter(tensors))
