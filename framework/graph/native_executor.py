"""The native executor: plans and memory are C++, made anew for new shapes and kept; kernels run on the CPU."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from framework import _core
from framework.context import context
from framework.errors import AttributeValueError, DeviceMemoryError, PaddockError
from framework.forks import free_in_child
from framework.graph.ir import Program
from framework.graph.memory import MemoryReport
from framework.graph.native import Native
from framework.tensors import Tensor

_log = logging.getLogger("paddock")
_NO_ROOM = (
    "Program: no memory for its values; make the batch or the inputs smaller (`memory_report` says where memory goes)"
)


class NativeExecution:
    """A Program ready to run natively; states are updated in place where nobody else sees their memory."""

    def __init__(self, program: Program, loop_steps: int | None) -> None:
        self._program = program
        self._loop_steps = loop_steps
        self._native = Native(program)
        self.numbers, self.executable = self._native.numbers, self._native.executable
        self._states = list(program.states.values())
        self._lock = threading.RLock()  # from reading where states lie until what has moved is noted
        free_in_child(self)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs once and returns the results."""
        given = _arrays(inputs)
        with self._lock:
            try:
                with _step_budget(self._loop_steps):
                    results, moved = self.executable.run(given, _arrays(self._states))
            except BaseException as e:
                self._tear(f"failed when it had begun to update it ({type(e).__name__}: {e})")
                if isinstance(e, MemoryError) and not isinstance(e, PaddockError):
                    raise DeviceMemoryError(_NO_ROOM) from e
                raise
            for i, array in moved.items():
                self._states[i]._data = array
        return [Tensor(a) for a in results]

    def _tear(self, how: str) -> None:
        """States that a run may have written in part are errors to read from here on."""
        for i in self.executable.torn:
            t = self._states[i]
            t.array().tear(
                f"{t.name or f'state {i}'}: a run of a Program {how}; give it a value again, by set() or from a "
                f"checkpoint"
            )

    def _after_fork(self) -> None:
        self._tear("was updating it in another thread when this process was forked")

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Infers shapes and plans memory; does nothing when that plan is kept."""
        self.executable.prepare(_arrays(inputs), _arrays(self._states))

    def memory_report(self, inputs: Sequence[Tensor] | None) -> MemoryReport:
        """Where the memory of a run with these inputs goes; by default with those of the last run."""
        if inputs is not None:
            self.plan(inputs)
        plan = self.executable.last_plan()
        if plan is None:
            raise AttributeValueError("memory_report: the Program has not run yet; pass its inputs")
        return MemoryReport(self._program, self.numbers, plan, _arenas_of_blocks(self._native))

    def watch(self, compiled: Any) -> None:
        """Its operations are reported under the numbers of its executable and those of its blocks."""
        assert context.programs is not None
        context.programs[self.executable.id] = compiled
        _watch_blocks(self._native)

    @property
    def plans_made(self) -> int:
        """How often shapes were inferred and memory was planned since the start."""
        return self.executable.plans_made

    def kept_bytes(self) -> int:
        """Bytes that stay from run to run: arenas, and what kernels prepared from constants."""
        return _kept_bytes(self._native)

    def forget_plans(self) -> None:
        """Drops all plans, and what kernels prepared from constants."""
        self.executable.forget_plans()


class NativeExecutor:
    """Runs Programs on the CPU."""

    device = "cpu"
    devices = 1
    products = "float32"

    def spread(self, states: Iterable[Tensor]) -> None:
        """One device has them whole."""

    def passes(self, names: Sequence[str]) -> Sequence[str]:
        """All of them: they were written for it."""
        return names

    def compile(self, program: Program, loop_steps: int | None) -> NativeExecution:
        """A Program, made ready."""
        python = dict.fromkeys(op.name for op in program.operations() if op.info.family == "python")
        if python:
            _log.warning("%s: Python code in a Program holds the interpreter's lock and is slow", ", ".join(python))
        return NativeExecution(program, loop_steps)


NATIVE = NativeExecutor()
_Array = _core.Array


def _arrays(tensors: Sequence[Tensor]) -> list[Any]:
    """Their data; what another device holds comes to the host."""
    return [t._data if t._data.__class__ is _Array else t.array() for t in tensors]


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


def _kept_bytes(native: Native) -> int:
    own: int = native.executable.kept_bytes()
    return own + sum(_kept_bytes(inner) for _, inner in native.inner)


def _arenas_of_blocks(native: Native) -> int:
    plans = [(inner.executable.last_plan() or {}).get("arena_bytes", 0) for _, inner in native.inner]
    return sum(plans) + sum(_arenas_of_blocks(inner) for _, inner in native.inner)
