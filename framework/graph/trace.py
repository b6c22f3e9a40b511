"""Tracing: runs a Python function once with values that have shapes but no data, and collects its operations.

Forward pass, `backward()` and the optimizer's `step()` inside the function all land in one Program. Persistable tensors
(parameters, buffers, optimizer slots) that the function reads become states; `Tensor.set` becomes a state's update.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framework import mode
from framework.context import context
from framework.errors import PaddockError, TraceError
from framework.graph.grads import Gradients
from framework.graph.ir import Program, Value
from framework.tensors import Tensor

if TYPE_CHECKING:
    from framework.ops.registry import OpInfo

_FRAMEWORK = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Trace:
    """Collects one Program while active; `dispatch.apply` and `Tensor.set` call it.

    Attributes:
        takes_resources: whether tables may be used in it; not in blocks, which may run any number of times.
        row_gradients: what `backward()` left of tables' look-ups, by their leaves; see framework.table.gradient.
    """

    takes_resources = True

    def __init__(self) -> None:
        self.program = Program()
        self.program.on_shape_read = self.note_shape_read
        self._captured: dict[int, tuple[Tensor, Value]] = {}  # tensors from outside the function, kept alive
        self._now: dict[int, Value] = {}  # of the states that were set: what they stand for from there on
        self._arrays: dict[int, Value] = {}  # constants by the id of their data, which the Program keeps alive
        self.grads = Gradients(self._add_input)
        self.row_gradients: dict[Any, Any] = {}
        self.modes: dict[Any, bool] = {}  # layers whose train/eval mode was read, with what was found

    def run(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> Any:
        """Calls `function` on traced stand-ins of `inputs` and returns its (traced) result."""
        expect_no_trace()
        stand_ins = [self._add_input(t) for t in inputs]
        self.grads.begin(inputs, stand_ins)
        context.trace = self
        try:
            with mode.watch(self.modes):
                return function(*stand_ins)
        finally:
            context.trace = None
            self.program.on_shape_read = None

    def _add_input(self, t: Tensor) -> Tensor:
        return traced(self.program.add_input(t.shape, t.dtype, t.name), requires_grad=t.requires_grad)

    # -- called while the function runs
    def record(self, info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...]) -> Any:
        """Adds an operation; returns Tensors that stand for its outputs."""
        values = [None if x is None else self.value_of(x) for x in inputs]
        where = user_line()
        try:
            op = self.program.add_operation(info, values, attrs, where)
        except PaddockError as e:
            raise type(e)(f"{e} (traced at {where})") from None
        outs = tuple([traced(v) for v in op.outputs])
        return outs if info.many_outputs else outs[0]

    def value_of(self, t: Tensor) -> Value:
        """The value that a tensor stands for; tensors from outside become states or constants.

        What a state stands for is known here only: other threads go on to read its data.
        """
        if t._value is not None:
            if t._value.program is not self.program:
                raise TraceError(f"a value of another, finished trace is used at {user_line()}; return it instead")
            return t._value
        if id(t) not in self._captured:
            value = self.program.add_state(t) if t.persistable else self._constant(t.array())
            self._captured[id(t)] = (t, value)
        return self._now.get(id(t)) or self._captured[id(t)][1]

    def now(self, t: Tensor) -> Value | None:
        """The value that a tensor stands for, None where the Program has not read it."""
        if t._value is not None or id(t) not in self._captured:
            return t._value
        return self._now.get(id(t)) or self._captured[id(t)][1]

    def _constant(self, array: Any) -> Value:
        """A constant for data from outside; one for all uses of a Python number, whose data is kept and shared."""
        value = self._arrays.get(id(array))
        if value is None:
            value = self._arrays[id(array)] = self.program.add_constant(array)
        return value

    def update(self, t: Tensor, new: Tensor) -> None:
        """`t.set(new)`: from here on `t` stands for the new value, and the Program stores it after each run."""
        if not t.persistable:
            raise TraceError(f"set: only parameters and buffers can be set while tracing, at {user_line()}")
        self.value_of(t)
        state = self._captured[id(t)][1]
        value = self.value_of(new)
        value.static = True  # a state keeps its shape
        self.program.updates[state] = value
        self._now[id(t)] = value

    def expect_used_gradients(self) -> None:
        """Refuses gradients of tables' rows that no step used: they cannot leave the Program."""
        for leaf in self.row_gradients:
            raise TraceError(leaf.left_over())

    def note_shape_read(self, value: Value) -> None:
        """Python looked at an input-dependent shape: the Program is right for these input shapes only."""
        self.program.shape_reads.append(f"{user_line()} read the shape {list(value.shape)} of {value}")


def expect_no_trace() -> None:
    """Refuses to trace while this thread traces something else."""
    if context.trace is not None:
        raise TraceError("program: a traced function was called while another Program is traced; call it outside")


def traced(value: Value, *, requires_grad: bool = False) -> Tensor:
    """A Tensor that stands for a value of a Program."""
    t = Tensor(None, requires_grad=requires_grad)
    t._value = value
    return t


def user_line() -> str:
    """`file:line` of the innermost caller outside of the framework."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith((_FRAMEWORK, "<")) and "/tests/" not in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
