"""Inlined: a function's operations apart from the Program that is being traced, to be changed before they join it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework.context import context
from framework.control.block import BlockTrace, input_like
from framework.graph.ir import Value
from framework.graph.trace import Trace, traced
from framework.graph.trees import flatten, unflatten
from framework.tensors import Tensor


class _PartTrace(BlockTrace):
    """As of a block, but states may be set: they are when the part joins the trace around it."""

    def __init__(self, parent: Trace) -> None:
        super().__init__(parent)
        self.changed: dict[int, tuple[Tensor, Value]] = {}

    def value_of(self, t: Tensor) -> Value:
        if t._value is None and id(t) in self.changed:
            return self.changed[id(t)][1]
        return super().value_of(t)

    def now(self, t: Tensor) -> Value | None:
        return self.changed[id(t)][1] if t._value is None and id(t) in self.changed else super().now(t)

    def update(self, t: Tensor, new: Tensor) -> None:
        """Notes what the state is from here on."""
        self.changed[id(t)] = (t, self.value_of(new))


class Inlined:
    """A function that was traced inside of the active trace, and has not joined it yet.

    Args:
        function: takes `args`.
        args: trees of tensors.

    Attributes:
        block: its operations; what it reads from around is among its inputs. Passes may change it.
    """

    def __init__(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        self._parent: Trace = context.trace
        trace = _PartTrace(self._parent)
        self.block = trace.program
        given: list[Tensor] = []
        structure = flatten(list(args), given)
        inputs = [input_like(self.block, self._parent.value_of(t)) for t in given]
        leaves: list[Tensor] = []
        context.trace = trace
        try:
            self._structure = flatten(function(*unflatten(structure, iter([traced(v) for v in inputs]))), leaves)
            own = [trace.value_of(t) for t in leaves]
        finally:
            context.trace = self._parent
            self.block.on_shape_read = None
        self.block.results = own + [v for _, v in trace.changed.values()]
        self._own, self._states = len(own), [t for t, _ in trace.changed.values()]
        self._given = [*given, *(t for t, _, _ in trace.captured.values())]

    def known(self) -> dict[Value, Tensor]:
        """What the block reads, as tensors of the trace around it."""
        found = dict(zip(self.block.inputs, self._given, strict=True))
        return found | {v: Tensor(array) for v, array in self.block.constants.items()}

    def result(self, known: Mapping[Value, Tensor]) -> Any:
        """Lets the part join: sets the states and returns what the function did.

        Args:
            known: the block's values in the trace around it.
        """
        shapes = self._parent.program
        for a, b in self.block.assumptions:
            if a in known and b in known:
                shapes.assume_equal_shapes(self._parent.value_of(known[a]), self._parent.value_of(known[b]))
        values = [known[v] for v in self.block.results]
        for t, new in zip(self._states, values[self._own :], strict=True):
            t.set(new.detach())
        return unflatten(self._structure, iter(values[: self._own]))
