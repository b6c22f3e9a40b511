"""From a Program to its native Executable, which runs it."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from framework import _core
from framework.context import context
from framework.errors import AttributeValueError, PaddockError, TraceError
from framework.graph.explanation import explain
from framework.graph.ir import Program, Value
from framework.graph.native import Native
from framework.graph.passes.report import Explanation
from framework.tensor import Tensor

_log = logging.getLogger("paddock")


class CompiledProgram:
    """A Program ready to run: plans and memory are native, made anew for new shapes and kept."""

    def __init__(self, program: Program, *, loop_steps: int | None = None) -> None:
        """Makes it ready; `loop_steps`: what its loops may take together in a run, by default any number."""
        self.program = program
        self.loop_steps = loop_steps
        self._native = Native(program)
        self._numbers, self._executable = self._native.numbers, self._native.executable
        self._states = list(program.states.values())
        self._updated = {id(program.states[v]) for v in program.updates}
        self._lock = threading.RLock()  # from reading where states lie until what has moved is noted
        python = dict.fromkeys(op.name for op in program.operations() if op.info.family == "python")
        if python:
            _log.warning("%s: Python code in a Program holds the interpreter's lock and is slow", ", ".join(python))

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs once and returns the results; states are updated, in place where nobody else sees their memory.

        Raises:
            ShapeError, DTypeError: the inputs do not fit; the message names the operator and the user's line.
            StateError: an earlier run failed when it had written a part of a state, which was not set again since.
            TraceError: an argument is a state that the Program updates.
        """
        if self._updated:
            self._refuse_states(inputs)
        if context.programs is not None:
            context.programs[self._executable.id] = self
            _watch_blocks(self._native)
        try:
            return [Tensor(a) for a in self._run([t._data for t in inputs])]
        except PaddockError as e:
            with_line = self._with_line(e)
            if with_line is e:
                raise
            raise with_line from None

    def _run(self, inputs: list[Any]) -> list[Any]:
        with self._lock:
            try:
                with _step_budget(self.loop_steps):
                    results, moved = self._executable.run(inputs, [t._data for t in self._states])
            except BaseException as e:
                self._tear(e)
                raise
            for i, array in moved.items():
                self._states[i]._data = array
        return results

    def _tear(self, cause: BaseException) -> None:
        """States that a failed run may have written in part are errors to read from here on."""
        for i in self._executable.torn:
            t = self._states[i]
            t._data.tear(
                f"{t.name or f'state {i}'}: a run of a Program failed when it had begun to update it "
                f"({type(cause).__name__}: {cause}); give it a value again, by set() or from a checkpoint"
            )

    def _refuse_states(self, inputs: Sequence[Tensor]) -> None:
        for i, t in enumerate(inputs):
            if t.persistable and id(t) in self._updated:
                raise TraceError(
                    f"program: argument {i} is {t.name or 'a state'}, which the function updates too; leave it out, "
                    "or pass its detach() to give the value it has now"
                )

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Infers shapes and plans memory for these inputs without running; does nothing when that plan is kept."""
        self._executable.prepare([t._data for t in inputs], [t._data for t in self._states])

    def memory_report(self, inputs: Sequence[Tensor] | None = None) -> MemoryReport:
        """Where the memory of a run with these inputs goes; by default with those of the last run.

        Raises:
            AttributeValueError: without inputs, when there is no plan of an earlier run.
        """
        if inputs is not None:
            self.plan(inputs)
        plan = self._executable.last_plan()
        if plan is None:
            raise AttributeValueError("memory_report: the Program has not run yet; pass its inputs")
        return MemoryReport(self.program, self._numbers, plan, _arenas_of_blocks(self._native))

    def explain(self) -> Explanation:
        """What each pass matched and nearly matched; print it."""
        return explain(self.program)

    @property
    def plans_made(self) -> int:
        """How often shapes were inferred and memory was planned since the start."""
        return self._executable.plans_made

    def forget_plans(self) -> None:
        """Drops all plans, and what kernels prepared from constants; the next run makes both anew."""
        self._executable.forget_plans()

    def _with_line(self, e: PaddockError) -> PaddockError:
        found = re.search(r"(?: \[operation \d+\])* \[operation (\d+)\]$", str(e))  # in blocks: the innermost first
        if not found:
            return e
        op = self.program.block.ops[int(found.group(1))]
        return type(e)(f"{str(e)[: found.start()]}" + (f" (traced at {op.where})" if op.where else ""))


@contextlib.contextmanager
def _step_budget(steps: int | None) -> Iterator[None]:
    """Inside, loops of this thread may take so many steps together."""
    if steps is None:
        yield
        return
    before = _core.set_step_budget(steps)
    try:
        yield
    finally:
        _core.set_step_budget(before)


def _watch_blocks(native: Native) -> None:
    assert context.blocks is not None
    for block, inner in native.inner:
        context.blocks[inner.executable.id] = block
        _watch_blocks(inner)


def _arenas_of_blocks(native: Native) -> int:
    plans = [(inner.executable.last_plan() or {}).get("arena_bytes", 0) for _, inner in native.inner]
    return sum(plans) + sum(_arenas_of_blocks(inner) for _, inner in native.inner)


class MemoryReport:
    """Bytes of a plan: in all, and by value."""

    def __init__(self, program: Program, numbers: dict[Value, int], plan: dict[str, Any], block_bytes: int = 0) -> None:
        self.block_bytes = block_bytes  # arenas of blocks, of the sizes that ran last
        self.arena_bytes: int = plan["arena_bytes"]
        self.lower_bound_bytes: int = plan["lower_bound_bytes"]
        self.naive_bytes: int = plan["naive_bytes"]
        self.in_place_count: int = plan["in_place_count"]
        self.state_bytes = sum(t.array().nbytes for t in program.states.values())
        self.rows: list[tuple[str, str, str, int]] = []  # operator, value, place, bytes; largest first
        for op in program.block:
            for v in op.outputs:
                shape, dtype, place, *_ = plan["values"][numbers[v]]
                size = int(np.prod(shape, dtype=np.int64)) * _ITEM_SIZE[dtype]
                self.rows.append((op.name, f"{v}: {dtype}{list(shape)}", place, size))
        self.rows.sort(key=lambda row: -row[3])

    def __str__(self) -> str:
        mb = 1 / 2**20
        lines = [
            f"{self.naive_bytes * mb:.1f} MB of values -> {self.arena_bytes * mb:.1f} MB planned "
            f"(no plan can need less than {self.lower_bound_bytes * mb:.1f} MB), "
            f"{self.in_place_count} values in place, {self.state_bytes * mb:.1f} MB of states"
            + (f", {self.block_bytes * mb:.1f} MB for blocks" if self.block_bytes else "")
        ]
        lines += [f"{size * mb:10.2f} MB  {place:8}  {op:24} {value}" for op, value, place, size in self.rows[:20]]
        return "\n".join(lines)


_ITEM_SIZE = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2} | dict.fromkeys(
    ("int8", "uint8", "bool"), 1
)
