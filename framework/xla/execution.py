"""A Program on a device: one compiled function for each set of input shapes."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from framework.errors import AttributeValueError, PaddockError
from framework.graph.ir import Program, Value
from framework.tensors import Tensor
from framework.xla import rules as _rules  # noqa: F401  (fills the table of rules)
from framework.xla.device_array import DeviceArray
from framework.xla.layout import Layout
from framework.xla.lower import Faults, Lowering, constant
from framework.xla.runtime import as_ours, read

_log = logging.getLogger("paddock")

_MANY, _MOST = 8, 64  # compiled functions of one Program from which on the user is told, and that are kept
# A float32 product is one: on GPUs and TPUs XLA's default would round its factors to 10 or 7 bits. Those of bfloat16
# are rounded by the rules; what has none to round, such as a product of float64, stays exact.
_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": "highest"}
_EMBEDDED = 64  # constants of more elements are arguments: in the code they would be copied and folded at length


@dataclass
class _Compiled:
    """One compiled function, for one set of input shapes."""

    function: Any
    messages: list[tuple[str, str]]  # of data that can be refused
    largest: list[str]  # values of the Program, in words, for where memory runs out


class XlaExecution:
    """A Program on a device: states live there between runs, and results come to the host when they are read."""

    def __init__(self, program: Program, layout: Layout, products: str = "float32", keeps_states: bool = False) -> None:
        """`keeps_states`: old states stay until `follow` of a run is done, in place of giving them to the run."""
        self._program = program
        self._keeps_states = keeps_states
        self._layout, self._products = layout, products
        self._compiled: OrderedDict[Any, _Compiled] = OrderedDict()  # by shapes; what ran longest ago comes first
        self._states = list(program.states.items())
        self._updates = [(s, program.states[s], new) for s, new in program.updates.items()]
        self._kept = [(v, t) for v, t in self._states if v not in program.updates]
        self._constants: list[Any] | None = None
        self._offsets = _offsets_of(program)
        self._pending: list[_Verdict] = []  # of runs that nobody looked at
        self._lock = threading.RLock()
        self.plans_made = 0
        self.compile_seconds = 0.0

    def run(self, inputs: Sequence[Tensor], follow: Callable[[list[Tensor]], None] | None = None) -> list[Tensor]:
        """Starts a run and returns its results, which are read when somebody looks at them.

        `follow` is given the results before states take their new values, and waits for the run: where it fails, or the
        run refuses its data, they keep the old ones.

        Raises:
            AttributeValueError: a run before the last was given indices or labels that do not fit; it has left states
                as they were. The last run's are checked when a result or a state is read.
        """
        with self._lock:
            self._look_at_old_runs()
            longest = self._longest(inputs)
            given = [self._on_device(t, self._layout.of_input(t.shape)) for t in inputs]
            take = self._state_on_device if self._keeps_states else self._to_give_away
            updated = [take(t) for _, t, _ in self._updates]
            kept = [self._state_on_device(t) for _, t in self._kept]
            compiled = self._for(longest, updated, kept, given)
            try:
                results, states, faults = compiled.function(updated, kept, given, self._device_constants())
            except Exception as e:
                self._lose_states(e)
                raise as_ours(e, self._memory((updated, kept, given), compiled.largest)) from e
            verdict = None if faults is None else _Verdict(compiled.messages, faults)
            if verdict is not None:
                self._pending.append(verdict)
            sound = None if verdict is None else verdict.expect_sound
            made = [Tensor(DeviceArray(buffer, sound)) for buffer in results]
            if follow is not None:
                if sound is not None:
                    sound()
                follow(made)
            for (_, t, _), buffer in zip(self._updates, states, strict=True):
                t._data = DeviceArray(buffer, None if verdict is None else verdict.report)
        return made

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Compiles for these inputs; does nothing when that is done."""
        with self._lock:
            longest = self._longest(inputs)
            given = [self._on_device(t, self._layout.of_input(t.shape)) for t in inputs]
            updated = [self._state_on_device(t) for _, t, _ in self._updates]
            self._for(longest, updated, [self._state_on_device(t) for _, t in self._kept], given)

    # -- data
    def _on_device(self, t: Tensor, sharding: Any = None) -> Any:
        """The data of a tensor, whole on each device by default; a state's stays there until it is read or set."""
        sharding = sharding or self._layout.whole
        data = t._data
        if isinstance(data, DeviceArray):
            data.expect_kept()
            if data.buffer.devices() == sharding.device_set:
                if data.buffer.sharding.is_equivalent_to(sharding, data.ndim):
                    return data.buffer
                if not self._layout.many_hosts:
                    return jax.device_put(data.buffer, sharding)
            data = data.host()
        if data is None:
            data = t.array()  # which says what is wrong
        buffer = self._layout.put(np.array(Tensor(data).numpy()), sharding)  # a copy: JAX may keep the memory
        if t.persistable:
            t._data = DeviceArray(buffer)
        return buffer

    def _state_on_device(self, t: Tensor) -> Any:
        return self._on_device(t, self._layout.of_state(t))

    def _to_give_away(self, t: Tensor) -> Any:
        """A state's data for a run that overwrites it: a copy where somebody else holds the same data."""
        buffer = self._state_on_device(t)
        shared = sys.getrefcount(t._data) > 2  # the tensor's own and that of the call
        return self._layout.copied(buffer) if shared else buffer

    def _lose_states(self, cause: BaseException) -> None:
        for value, t, _ in self._updates:
            data = t._data
            if isinstance(data, DeviceArray) and data.buffer is not None and data.buffer.is_deleted():
                data.lose(
                    f"{t.name or value}: a run of a Program failed on the device when it had begun to update it "
                    f"({type(cause).__name__}: {cause}); give it a value again, by set() or from a checkpoint"
                )

    def _device_constants(self) -> list[Any]:
        if self._constants is None:
            arrays = [a for a in self._program.constants.values() if a.size > _EMBEDDED]
            self._constants = [self._layout.put(np.array(Tensor(a).numpy()), self._layout.whole) for a in arrays]
        return self._constants

    # -- data that is refused
    def _look_at_old_runs(self) -> None:
        """Raises for a run before the last one; the last may still be under way, and waiting for it would cost time."""
        while len(self._pending) > 1:
            self._pending.pop(0).report()

    # -- compilation
    def _longest(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        """For each input that holds offsets a bound of the sequences' lengths, one of few."""
        found = []
        for i in self._offsets:
            at = np.asarray(inputs[i].numpy())
            found.append(_bucket(int(np.max(at[1:] - at[:-1], initial=0))))
        return tuple(found)

    def _for(self, longest: tuple[int, ...], updated: list[Any], kept: list[Any], given: list[Any]) -> _Compiled:
        key = (longest, *((a.shape, str(a.dtype)) for a in given))
        if key not in self._compiled:
            self._compiled[key] = self._compile(longest, updated, kept, given)
            if len(self._compiled) > _MOST:
                self._compiled.popitem(last=False)
            if len(self._compiled) == _MANY:
                _log.warning(
                    "xla: %d kinds of input shapes were compiled for one Program, each of which takes seconds: give "
                    "it few shapes, by sizes of images and batches that repeat",
                    _MANY,
                )
        self._compiled.move_to_end(key)
        return self._compiled[key]

    def _compile(self, longest: tuple[int, ...], *arguments: Any) -> _Compiled:
        start = time.perf_counter()
        messages: list[tuple[str, str]] = []
        largest: list[str] = []
        function = self._function(messages, longest, largest)
        shapes = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding),
            (*arguments, self._device_constants()),
        )
        with jax.default_device(self._layout.own[0]), jax.default_matmul_precision(_PRECISION[self._products]):
            lowered = jax.jit(function, donate_argnums=() if self._keeps_states else 0).lower(*shapes)
            try:
                compiled = lowered.compile()
            except jax.errors.JaxRuntimeError as e:
                raise as_ours(e, self._memory(arguments, largest)) from e
        self.plans_made += 1
        seconds = time.perf_counter() - start
        self.compile_seconds += seconds
        _log.info(
            "xla: compiled %d operations for %d of %s in %.1f s (%d so far, %.1f s)",
            sum(1 for _ in self._program.operations()),
            len(self._layout.devices),
            self._layout.platform,
            seconds,
            self.plans_made,
            self.compile_seconds,
        )
        return _Compiled(compiled, messages, largest)

    def _memory(self, arguments: Any, largest: list[str]) -> str:
        held = sum(a.nbytes for a in jax.tree.leaves((arguments, self._constants)))
        return f"inputs and states hold {held / 2**20:,.0f} MB; the largest values between are {', '.join(largest)}"

    def _function(
        self, messages: list[tuple[str, str]], longest: tuple[int, ...], largest: list[str]
    ) -> Callable[..., Any]:
        program = self._program

        def function(updated: list[Any], kept: list[Any], given: list[Any], constants: list[Any]) -> Any:
            lowering = Lowering(Faults(messages), self._layout.platform, self._products, self._layout.kept)
            lowering.longest = {id(given[i]): bound for i, bound in zip(self._offsets, longest, strict=True)}
            values: dict[Value, Any] = dict(zip(program.inputs, given, strict=True))
            values |= {s: a for (s, _, _), a in zip(self._updates, updated, strict=True)}
            values |= {s: a for (s, _), a in zip(self._kept, kept, strict=True)}
            large = iter(constants)
            values |= {v: next(large) if a.size > _EMBEDDED else constant(a) for v, a in program.constants.items()}
            lowering.run(program, values)
            largest[:] = _largest(program, values)
            states = [
                self._layout.kept(values[new].astype(values[s].dtype), self._layout.of_state(t))
                for s, t, new in self._updates
            ]
            results = [self._layout.result(values[v]) for v in program.results]
            faults = lowering.faults
            if not faults.noted:
                return results, states, None
            sound = faults.state[0] == 0
            states = [jnp.where(sound, new, old) for new, old in zip(states, updated, strict=True)]
            return results, states, self._layout.result(faults.state)

        return function

    # -- what people ask
    def memory_report(self, inputs: Sequence[Tensor] | None) -> MemoryReport:
        """What XLA says of the memory of a run with these inputs; by default of the last shapes that were compiled."""
        if inputs is not None:
            self.plan(inputs)
        if not self._compiled:
            raise AttributeValueError("memory_report: the Program has not run yet; pass its inputs")
        return MemoryReport(list(self._compiled.values())[-1].function.memory_analysis())

    def watch(self, compiled: Any) -> None:
        """The profiler sees native kernels only; for a device take `jax.profiler`."""

    def forget_plans(self) -> None:
        """Drops compiled functions and the device's copies of constants."""
        self._compiled.clear()
        self._constants = None


def _largest(program: Program, values: dict[Value, Any], count: int = 5) -> list[str]:
    """The largest results of operations, in words: their size, operator, shape and the line that asked for them."""
    made = [
        (values[v].size * values[v].dtype.itemsize, op, values[v].shape) for op in program.block for v in op.outputs
    ]
    return [
        f"{size / 2**20:,.1f} MB of {op.name} {list(shape)}" + (f" ({op.where})" if op.where else "")
        for size, op, shape in sorted(made, key=lambda each: -each[0])[:count]
    ]


def _offsets_of(program: Program) -> list[int]:
    """Which inputs are read as offsets of ragged rows."""
    numbers = {v: i for i, v in enumerate(program.inputs)}
    found = set()
    for op in program.block:
        for spec, value in zip(op.info.inputs, op.inputs, strict=False):
            if spec["offsets"] and value in numbers:
                found.add(numbers[value])
    return sorted(found)


def _bucket(length: int) -> int:
    """The least of 16, 32, 64, 128, 256, 384 ... that holds so many rows: few sizes, so that few are compiled."""
    for bound in (16, 32, 64):
        if length <= bound:
            return bound
    return -(-length // 128) * 128


class _Verdict:
    """Whether a run took its data; known when the run is over."""

    def __init__(self, messages: list[tuple[str, str]], faults: Any) -> None:
        self._messages = messages
        self._faults = faults
        self._error: PaddockError | None = None
        self._reported = False

    def expect_sound(self) -> None:
        """Waits for the run; raises where it refused its data: its results mean nothing."""
        if self._faults is not None:
            number, value = (int(v) for v in read(self._faults))
            self._faults = None
            if number:
                text, where = self._messages[number - 1]
                self._error = AttributeValueError(
                    text.replace("{}", str(value)) + (f" (traced at {where})" if where else "")
                )
        if self._error is not None:
            self._reported = True
            raise self._error

    def report(self) -> None:
        """As `expect_sound`, but once only: states are what they were before a run that refused its data."""
        if not self._reported:
            self.expect_sound()


class MemoryReport:
    """Bytes of a run on a device, as XLA counts them."""

    def __init__(self, analysis: Any) -> None:
        self.argument_bytes: int = analysis.argument_size_in_bytes
        self.result_bytes: int = analysis.output_size_in_bytes
        self.shared_bytes: int = analysis.alias_size_in_bytes  # results that take the place of arguments
        self.temporary_bytes: int = analysis.temp_size_in_bytes
        self.code_bytes: int = analysis.generated_code_size_in_bytes

    def __str__(self) -> str:
        mb = 1 / 2**20
        return (
            f"{self.argument_bytes * mb:.1f} MB of inputs and states, {self.temporary_bytes * mb:.1f} MB of values, "
            f"{(self.result_bytes - self.shared_bytes) * mb:.1f} MB of results, {self.code_bytes * mb:.1f} MB of code"
        )
