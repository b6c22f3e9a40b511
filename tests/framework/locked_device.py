"""A second device that tests can have everywhere: memory of its own that the host cannot touch, and the native kernels.

Its memory is pages that nobody may read or write (PROT_NONE) but while the device is at work or copies. So whatever
reads a tensor's data without bringing it to the host ends the process, on every machine and without an accelerator.
It goes in by the same door as XLA: `framework.graph.executor`.

While a Program runs, its inputs are open, and its states lie in ordinary memory; both are closed again afterwards. So
what is proved is that nobody touches the device's memory between runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from framework.context import context
from framework.graph.ir import Program
from framework.graph.native_executor import NATIVE
from framework.tensors import Tensor, from_numpy, numpy_of

_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NOBODY = 0  # PROT_NONE, which Python does not name


class LockedArray:
    """An array of the device, as a Tensor holds it."""

    def __init__(self, device: LockedExecutor, data: Any) -> None:
        """`data`: a native array, which is copied."""
        array = numpy_of(data)
        self.shape, self.dtype, self.ndim, self.size = data.shape, data.dtype, data.ndim, data.size
        self.nbytes = int(array.nbytes)
        self._device = device
        self._pages = mmap.mmap(-1, max(1, self.nbytes))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._view = np.frombuffer(self._pages, array.dtype, array.size).reshape(array.shape)
        np.copyto(self._view, array)
        self._depth = 0
        self._protect(_NOBODY)

    def _protect(self, who: int) -> None:
        if _mprotect(self.address, len(self._pages), who):
            raise OSError(ctypes.get_errno(), "mprotect")

    @contextlib.contextmanager
    def unlocked(self) -> Iterator[Any]:
        """Inside, a native array on this memory; it must not be kept."""
        with self._device.lock:
            if not self._depth:
                self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
            self._depth += 1
        try:
            yield from_numpy(self._view).array()
        finally:
            with self._device.lock:
                self._depth -= 1
                if not self._depth:
                    self._protect(_NOBODY)

    def host(self) -> Any:
        """A copy on the host."""
        self._device.to_host += 1
        with self.unlocked():
            return from_numpy(np.array(self._view)).array()


class LockedExecution:
    """A Program on the device: a native plan, over memory that is open while it runs."""

    def __init__(self, device: LockedExecutor, program: Program, loop_steps: int | None) -> None:
        self._device = device
        self._native = NATIVE.compile(program, loop_steps)
        self._states = list(program.states.values())

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs once; results and states stay on the device."""
        with self._inside(inputs) as given:
            results = [LockedArray(self._device, t.array()) for t in self._native.run(given)]
        return [Tensor(r) for r in results]

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Infers shapes and plans memory."""
        with self._inside(inputs) as given:
            self._native.plan(given)

    @contextlib.contextmanager
    def _inside(self, inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """Inside, native tensors on the memory of inputs and states; what states are then goes to the device."""
        with self._device.lock, contextlib.ExitStack() as memory:
            given = [Tensor(memory.enter_context(self._device.array_of(t).unlocked())) for t in inputs]
            before = [self._device.array_of(t) for t in self._states]
            for t, array in zip(self._states, before, strict=True):
                inside = numpy_of(memory.enter_context(array.unlocked()))
                t._data = from_numpy(np.array(inside)).array()  # a copy, as a run may write in place
            try:
                yield given
            except BaseException:
                if not self._native.executable.torn:
                    for t, array in zip(self._states, before, strict=True):
                        t._data = array
                raise
            for t in self._states:
                t._data = LockedArray(self._device, t.array())

    def memory_report(self, inputs: Sequence[Tensor] | None) -> Any:
        """That of the native plan."""
        if inputs is not None:
            self.plan(inputs)
        return self._native.memory_report(None)

    def watch(self, compiled: Any) -> None:
        """Its operations are the native plan's."""
        self._native.watch(compiled)

    @property
    def plans_made(self) -> int:
        """How often it was made ready for new shapes."""
        return self._native.plans_made

    def forget_plans(self) -> None:
        """Drops the native plans."""
        self._native.forget_plans()


class LockedExecutor:
    """The device, and how often data came to it and went to the host."""

    device = "locked"
    products = "float32"
    devices = 1

    def __init__(self) -> None:
        self.to_device = self.to_host = 0
        self.lock = threading.RLock()  # held by a run, as states are elsewhere meanwhile

    def passes(self, names: Sequence[str]) -> Sequence[str]:
        """All of them: the kernels are native."""
        return names

    def compile(self, program: Program, loop_steps: int | None) -> LockedExecution:
        """A Program, made ready."""
        return LockedExecution(self, program, loop_steps)

    def array_of(self, t: Tensor) -> LockedArray:
        """A tensor's data on the device; a state's stays there."""
        data = t._data
        if isinstance(data, LockedArray):
            return data
        self.to_device += 1
        array = LockedArray(self, t.array())
        if t.persistable:
            t._data = array
        return array


@contextlib.contextmanager
def locked_device(device: LockedExecutor | None = None) -> Iterator[LockedExecutor]:
    """Inside, Programs of this thread run on the device, a new one by default."""
    before, context.executor = context.executor, device or LockedExecutor()
    try:
        yield context.executor
    finally:
        context.executor = before
