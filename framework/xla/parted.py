"""Runs a Program in parts: the host's first, the device's, the host's last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework import _core
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program, Value
from framework.tensors import Tensor, from_numpy
from framework.xla.cut import Cut, CutProgram
from framework.xla.device_array import DeviceArray
from framework.xla.execution import MemoryReport, XlaExecution

Known = dict[Value, Tensor]  # data by value of the whole Program


class PartedExecution:
    """A Program of which the host runs the first and the last part, the device what lies between.

    Where there is a last part a run waits for the device, and states get their new values when that part is done: where
    it fails (a table is full) they are what they were before.
    """

    def __init__(self, program: Program, cut: Cut, execution: Callable[[Program, bool], XlaExecution]) -> None:
        """`execution` makes the device's part ready; its flag says whether old states are needed to the end."""
        self._program, self._cut = program, cut
        self._before, self._after = (
            CompiledProgram(part.program) if part else None for part in (cut.before, cut.after)
        )
        self._device = execution(cut.device.program, cut.after is not None)
        self._lock = threading.RLock()

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs once and returns the results."""
        with self._lock:
            known = dict(zip(self._program.inputs, inputs, strict=True))
            _take_in(known, self._cut.before, self._before)
            given = [known[v] for v in self._cut.device.reads]
            if self._cut.after is None:
                known.update(zip(self._cut.device.makes, self._device.run(given), strict=True))
            else:
                self._device.run(given, lambda results: self._end(known, results))
            return [known[v] for v in self._program.results]

    def _end(self, known: Known, results: Sequence[Tensor]) -> None:
        """What the host does last, with what the device made and with the states as they were."""
        known.update(zip(self._cut.device.makes, results, strict=True))
        assert self._cut.after is not None
        for v in self._cut.after.reads:
            if v in self._program.states:
                known[v] = _on_host(self._program.states[v])
        _take_in(known, self._cut.after, self._after)

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Compiles for these inputs; nothing runs, so that what the first part makes is stood for by zeros."""
        known = dict(zip(self._program.inputs, inputs, strict=True))
        if self._before is not None and self._cut.before is not None:
            self._before.plan([known[v] for v in self._cut.before.reads])
            known |= _stand_ins(known, self._cut.before)
        self._device.plan([known[v] for v in self._cut.device.reads])

    def memory_report(self, inputs: Sequence[Tensor] | None) -> MemoryReport:
        """Of the device's part."""
        if inputs is not None:
            self.plan(inputs)
        return self._device.memory_report(None)

    def watch(self, compiled: Any) -> None:
        """The profiler sees the host's parts."""
        for part in (self._before, self._after):
            if part is not None:
                part.execution.watch(part)

    @property
    def plans_made(self) -> int:
        """How often the device's part was compiled."""
        return self._device.plans_made

    def forget_plans(self) -> None:
        """Drops what is kept for shapes that were seen."""
        self._device.forget_plans()
        for part in (self._before, self._after):
            if part is not None:
                part.forget_plans()


def _take_in(known: Known, part: CutProgram | None, compiled: CompiledProgram | None) -> None:
    """Runs a part on the host and adds what it makes."""
    if part is not None and compiled is not None:
        known.update(zip(part.makes, compiled.run([known[v] for v in part.reads]), strict=True))


def _on_host(t: Tensor) -> Tensor:
    """The data of a state for the host, while the state stays on the device."""
    return Tensor(t._data.host()) if isinstance(t._data, DeviceArray) else Tensor(t.array())


def _stand_ins(known: Known, part: CutProgram) -> Known:
    """Zeros of the shapes of what a part makes."""
    values = dict(zip(part.program.inputs, [known[v] for v in part.reads], strict=True))
    values |= {v: Tensor(array) for v, array in part.program.constants.items()}
    for op in part.program.block:
        inputs = [None if v is None else values[v] for v in op.inputs]
        shapes, dtypes = ([None if t is None else get(t) for t in inputs] for get in (_shape, _dtype))
        for v, (shape, dtype) in zip(op.outputs, _core.infer(op.info.native, shapes, dtypes, op.attrs), strict=True):
            values[v] = from_numpy(np.zeros(tuple(shape), dtype))
    return dict(zip(part.makes, [values[v] for v in part.program.results], strict=True))


def _shape(t: Tensor) -> tuple[int, ...]:
    return tuple(t.shape)


def _dtype(t: Tensor) -> str:
    return t.dtype
