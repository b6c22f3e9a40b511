"""A Program ready to run, whatever runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from framework.context import context
from framework.errors import PaddockError, ShapeError, TraceError
from framework.graph.executor import Executor
from framework.graph.explanation import explain
from framework.graph.ir import Program
from framework.graph.native_executor import NATIVE, NativeExecution
from framework.graph.reports import Explanation
from framework.tensors import Tensor, from_numpy


class CompiledProgram:
    """A Program ready to run: what it needs for new shapes is made at their first run and kept.

    Attributes:
        program: what runs.
        loop_steps: what its loops may take together in a run; None for any number.
        execution: what an executor made of it.
    """

    def __init__(self, program: Program, *, loop_steps: int | None = None, executor: Executor = NATIVE) -> None:
        """Makes it ready; `loop_steps`: what its loops may take together in a run, by default any number."""
        self.program = program
        self.loop_steps = loop_steps
        self.execution = executor.compile(program, loop_steps)
        self._updated = {id(program.states[v]) for v in program.updates}

    def run(self, inputs: Sequence[Any]) -> list[Tensor]:
        """Runs once on Tensors or arrays and returns the results; states get their new values.

        Raises:
            ShapeError, DTypeError: the inputs do not fit; the message names the operator and the user's line. Also
                where a shape was read while tracing and an input has another shape now.
            StateError: an earlier run failed when it had written a part of a state, which was not set again since.
            TraceError: an argument is a state that the Program updates.
        """
        inputs = [x if isinstance(x, Tensor) else from_numpy(np.asarray(x)) for x in inputs]
        if self._updated:
            self._refuse_states(inputs)
        if self.program.shape_reads:
            self._refuse_shapes(inputs)
        if context.programs is not None:
            self.execution.watch(self)
        try:
            return self.execution.run(inputs)
        except PaddockError as e:
            with_line = self._with_line(e)
            if with_line is e:
                raise
            raise with_line from None

    def _refuse_states(self, inputs: Sequence[Tensor]) -> None:
        for i, t in enumerate(inputs):
            if t.persistable and id(t) in self._updated:
                raise TraceError(
                    f"program: argument {i} is {t.name or 'a state'}, which the function updates too; leave it out, "
                    "or pass its detach() to give the value it has now"
                )

    def _refuse_shapes(self, inputs: Sequence[Tensor]) -> None:
        for v, t in zip(self.program.inputs, inputs, strict=False):
            if tuple(t.shape) != tuple(v.shape):
                raise ShapeError(
                    f"program: {v.name or v} has shape {list(t.shape)}, but the Program was traced with "
                    f"{list(v.shape)} and takes no other, because {self.program.shape_reads[0]}; trace it again"
                )

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Infers shapes and plans memory for these inputs without running; does nothing when that plan is kept."""
        self.execution.plan(inputs)

    def memory_report(self, inputs: Sequence[Tensor] | None = None) -> Any:
        """Where the memory of a run with these inputs goes; by default with those of the last run. It prints.

        Raises:
            AttributeValueError: without inputs, when there is no plan of an earlier run.
        """
        return self.execution.memory_report(inputs)

    def explain(self) -> Explanation:
        """What each pass matched and nearly matched; print it."""
        return explain(self.program)

    @property
    def plans_made(self) -> int:
        """How often it was made ready for new shapes since the start."""
        return self.execution.plans_made

    def kept_bytes(self) -> int:
        """Bytes of the host that stay from run to run: arenas, and what kernels prepared from constants."""
        return self.execution.kept_bytes() if isinstance(self.execution, NativeExecution) else 0

    def forget_plans(self) -> None:
        """Drops what is kept for shapes and constants that were seen; the next run makes it anew."""
        self.execution.forget_plans()

    def _with_line(self, e: PaddockError) -> PaddockError:
        text, outer = str(e), None
        while found := re.search(r" \[operation (\d+)\]$", text):  # in blocks: the innermost first
            text, outer = text[: found.start()], outer or found
        if outer is None:
            return e
        op = self.program.block.ops[int(outer[1])]
        return type(e)(text + (f" (traced at {op.where})" if op.where else ""))
