"""From a Program to its native Executable, and the function that traces itself: `program`."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from framework import _core
from framework.context import context
from framework.errors import AttributeValueError, PaddockError, ShapeError, TraceError
from framework.graph import passes
from framework.graph.explanation import explain
from framework.graph.grads import Border
from framework.graph.ir import Program, Value
from framework.graph.native import Native
from framework.graph.passes.report import Explanation
from framework.graph.trace import Trace, expect_no_trace
from framework.tensor import Tensor, from_numpy

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


class TracedFunction:
    """A function that runs as a Program; see `program`."""

    def __init__(self, function: Callable[..., Any], pass_names: Sequence[str], updates: bool) -> None:
        self._function = function
        self._pass_names = pass_names
        self._updates = updates
        self._kept = _Kept(getattr(function, "__name__", "program"))
        self._lock = threading.RLock()  # one thread traces, others wait for what it makes
        self.traces_made = 0
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "program")

    def __call__(self, *args: Any) -> Any:
        """Runs the Program that fits the arguments, tracing it first when there is none."""
        entry, leaves = self._entry(args)
        while True:
            try:
                return unflatten(entry.out_structure, iter(entry.run(leaves)))
            except ShapeError:
                if not entry.was_refuted(leaves):
                    raise
                entry, leaves = self._entry(args, entry)  # which assumes less: this ends

    def program_for(self, *args: Any) -> CompiledProgram:
        """The compiled Program for these arguments, for printing, reports and export; does not run it."""
        return self._entry(args)[0].compiled

    def explain(self, *args: Any) -> Explanation:
        """What each pass matched and nearly matched in the Program for these arguments; does not run it."""
        return self.program_for(*args).explain()

    def _entry(self, args: Sequence[Any], refuted: _Entry | None = None) -> tuple[_Entry, list[Tensor]]:
        """The entry that fits, traced when there is none; not `refuted`, whose place another one takes."""
        leaves: list[Tensor] = []
        structure = flatten(list(args), leaves)
        key = (
            structure,
            tuple((t.dtype, t.ndim, t.requires_grad) for t in leaves),
            context.grad_enabled,
            context.conv_algorithm,
            context.precision,
        )
        shapes = [t.shape for t in leaves]
        entry = self._kept.find(key, shapes, leaves, refuted)
        if entry is None:
            expect_no_trace()
            with self._lock:
                entry = self._kept.find(key, shapes, leaves, refuted)
                if entry is None:
                    entry = self._trace(structure, leaves, refuted)
                    self._kept.add(key, entry, refuted)
        return entry, leaves

    def _trace(self, structure: Any, leaves: list[Tensor], refuted: _Entry | None) -> _Entry:
        self.traces_made += 1
        trace = Trace()
        out_leaves: list[Tensor] = []
        out_structure: Any = None
        border = Border()

        def call(*stand_ins: Tensor) -> None:
            nonlocal out_structure, border
            out_structure = flatten(self._function(*unflatten(structure, iter(stand_ins))), out_leaves)
            trace.expect_used_gradients()
            border, gradients = trace.grads.border(trace.value_of)
            trace.program.results = [trace.value_of(t) for t in out_leaves] + gradients

        trace.run(call, leaves)
        if not self._updates:
            trace.program.updates.clear()
            trace.program.block.ops = [op for op in trace.program.block if op.name != "table_update"]
        if refuted is None:
            trace.program.share_unequal(set())
        else:
            trace.program.learn_from(refuted.compiled.program)
        passes.run(trace.program, self._pass_names)
        return _Entry(CompiledProgram(trace.program), trace.modes, [t.shape for t in leaves], out_structure, border)


class _Entry:
    """One traced Program and when it may be used."""

    def __init__(
        self,
        compiled: CompiledProgram,
        modes: dict[Any, bool],
        shapes: list[tuple[int, ...]],
        out: Any,
        border: Border,
    ) -> None:
        self.compiled = compiled
        self.modes = list(modes.items())
        self.shapes = shapes if compiled.program.shape_reads else None
        self.out_structure = out
        self._border = border

    def was_refuted(self, leaves: list[Tensor]) -> bool:
        """Whether these inputs were refused before anything ran, maybe since a pass took shapes for equal."""
        if not self.compiled.program.all_assumptions():
            return False
        try:
            self.compiled.plan(leaves + self._border.inputs(leaves))
        except ShapeError:
            return True
        return False

    def fits(self, shapes: list[tuple[int, ...]], leaves: Sequence[Tensor]) -> bool:
        if self.shapes is not None and self.shapes != shapes:
            return False
        return all(layer.mode_now() == training for layer, training in self.modes) and self._border.fits(leaves)

    def run(self, leaves: list[Tensor]) -> list[Tensor]:
        """The function's results; gradients go to where `backward()` leaves them."""
        border = self._border
        results = self.compiled.run(leaves + border.inputs(leaves))
        own = len(results) - len(border.results)
        border.leave(leaves, results[own:])
        return results[:own]


class _Kept:
    """The Programs of one function by what they were traced for; those that ran longest ago make room for new ones."""

    MOST = 64
    MANY = 8  # from here on the user is told

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: OrderedDict[Any, list[_Entry]] = OrderedDict()
        self._lock = threading.Lock()  # of the entries: held for a look, not while something is traced

    def find(
        self, key: Any, shapes: list[tuple[int, ...]], leaves: Sequence[Tensor], refuted: _Entry | None
    ) -> _Entry | None:
        with self._lock:
            for entry in self._entries.get(key, ()):
                if entry is not refuted and entry.fits(shapes, leaves):
                    self._entries.move_to_end(key)
                    return entry
        return None

    def add(self, key: Any, entry: _Entry, refuted: _Entry | None) -> None:
        """Puts an entry there, in the place of one that other inputs have refuted."""
        with self._lock:
            self._entries[key] = [e for e in self._entries.get(key, ()) if e is not refuted] + [entry]
            self._entries.move_to_end(key)
            if len(self._entries) == self.MANY:
                self._warn()
            while sum(map(len, self._entries.values())) > self.MOST:
                oldest = next(iter(self._entries.values()))
                oldest.pop(0)
                if not oldest:
                    self._entries.popitem(last=False)

    def _warn(self) -> None:
        """Names the numbers that differ from call to call."""
        values: dict[int, set[Any]] = {}
        for structure, *_ in self._entries:
            for place, value in enumerate(_static_values(structure)):
                values.setdefault(place, set()).add(value)
        differing = [", ".join(map(repr, sorted(v, key=repr)[:4])) + ", ..." for v in values.values() if len(v) > 2]
        _log.warning(
            "program: %s was traced for %d kinds of arguments, and each trace takes time and memory%s; pass what "
            "changes from call to call as a tensor or an array. At most %d traces are kept.",
            self._name,
            len(self._entries),
            f" (an argument was {'; another '.join(differing)})" if differing else "",
            self.MOST,
        )


def _static_values(structure: Any) -> Iterator[Any]:
    """The arguments in a structure that are no tensors."""
    kind, content = structure
    if kind == "static":
        yield content[1]
    elif kind == "dict":
        for _, item in content:
            yield from _static_values(item)
    elif kind in ("list", "tuple"):
        for item in content:
            yield from _static_values(item)


def program(
    function: Callable[..., Any] | None = None,
    *,
    pass_names: Sequence[str] = passes.TRAINING_PASSES,
    updates: bool = True,
) -> Any:
    """Makes a function run as a Program: traced at the first call, planned again when input shapes change.

    Arguments and results may be Tensors or NumPy arrays in lists, tuples and dicts; other arguments are part of the
    Program and a new value means a new trace. Use it as a decorator or as `program(f)`. Without `updates`, parameters
    and buffers stay as they are, whatever the function sets, and what only a new value of them needs is not computed.

    >>> step = program(lambda x: ops.relu(x) * 2.0)
    """
    if function is None:
        return lambda f: TracedFunction(f, pass_names, updates)
    return TracedFunction(function, pass_names, updates)


def flatten(tree: Any, leaves: list[Tensor]) -> Any:
    """Moves the tensors of a tree to `leaves`; returns a hashable structure with markers in their places."""
    if isinstance(tree, np.ndarray):
        tree = from_numpy(tree)
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return _LEAF
    if isinstance(tree, dict):
        return ("dict", tuple((k, flatten(v, leaves)) for k, v in tree.items()))
    if isinstance(tree, (list, tuple)):
        return ("list" if isinstance(tree, list) else "tuple", tuple(flatten(v, leaves) for v in tree))
    try:
        hash(tree)
    except TypeError:
        raise TraceError(
            f"program: an argument of type {type(tree).__name__} cannot be passed; pass tensors, arrays, numbers, "
            "strings, and lists, tuples or dicts of them"
        ) from None
    return ("static", (type(tree), tree))  # the type too: 1, 1.0 and True are equal


def unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of that structure again, its tensors taken from the iterator `leaves`."""
    if structure is _LEAF:
        return next(leaves)
    kind, content = structure
    if kind == "dict":
        return {k: unflatten(v, leaves) for k, v in content}
    if kind in ("list", "tuple"):
        items = [unflatten(v, leaves) for v in content]
        return tuple(items) if kind == "tuple" else items
    return content[1]


_LEAF = ("leaf", None)
