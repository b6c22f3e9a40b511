"""The function that traces itself: `program`."""

from __future__ import annotations

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from framework.context import context
from framework.errors import ShapeError
from framework.forks import free_in_child
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.grads import Border
from framework.graph.native_executor import NATIVE
from framework.graph.reports import Explanation
from framework.graph.trace import Trace, expect_no_trace
from framework.graph.trees import flatten, static_values, unflatten
from framework.tensors import Tensor

_log = logging.getLogger("paddock")


class TracedFunction:
    """A function that runs as a Program; see `program`."""

    def __init__(self, function: Callable[..., Any], pass_names: Sequence[str], updates: bool) -> None:
        self._function = function
        self._pass_names = pass_names
        self._updates = updates
        self._kept = _Kept(getattr(function, "__name__", "program"))
        self._lock = threading.RLock()  # one thread traces, others wait for what it makes
        free_in_child(self)
        self.traces_made = 0
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "program")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the Program that fits the arguments, tracing it first when there is none.

        While another function is traced, its operations become a part of that Program.
        """
        if context.trace is not None and self._updates:
            return self._function(*args, **kwargs)
        entry, leaves = self._entry(args, kwargs)
        while True:
            try:
                return unflatten(entry.out_structure, iter(entry.run(leaves)))
            except ShapeError:
                if not entry.was_refuted(leaves):
                    raise
                entry, leaves = self._entry(args, kwargs, entry)  # which assumes less: this ends

    def __get__(self, instance: Any, owner: type | None = None) -> TracedFunction:
        """As a method: each object has Programs of its own, with its weights."""
        if instance is None:
            return self
        found: TracedFunction | None = vars(instance).get("_programs", {}).get(self)
        if found is not None and found._belongs_to(instance):
            return found
        with self._lock:
            bound: dict[TracedFunction, TracedFunction] = vars(instance).get("_programs", {})
            if self not in bound or not bound[self]._belongs_to(instance):  # those of the object that it is a copy of
                made = TracedFunction(self._function.__get__(instance), self._pass_names, self._updates)
                bound = {f: own for f, own in bound.items() if own._belongs_to(instance)} | {self: made}
                vars(instance)["_programs"] = bound
            return bound[self]

    def _belongs_to(self, instance: Any) -> bool:
        return getattr(self._function, "__self__", instance) is instance

    def __deepcopy__(self, memo: dict[int, Any]) -> TracedFunction:
        """A function is its own copy; a method of a copied object is that object's, and traced anew."""
        if getattr(self._function, "__self__", None) is None:
            return self
        return TracedFunction(copy.deepcopy(self._function, memo), self._pass_names, self._updates)

    def program_for(self, *args: Any, **kwargs: Any) -> CompiledProgram:
        """The compiled Program for these arguments, for printing, reports and export; does not run it."""
        return self._entry(args, kwargs)[0].compiled

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What each pass matched and nearly matched in the Program for these arguments; does not run it."""
        return self.program_for(*args, **kwargs).explain()

    def kept_bytes(self) -> int:
        """Bytes of the host that its Programs keep from run to run, see `CompiledProgram.kept_bytes`."""
        return sum(entry.compiled.kept_bytes() for entry in self._kept.all())

    def _entry(
        self, args: Sequence[Any], kwargs: dict[str, Any], refuted: _Entry | None = None
    ) -> tuple[_Entry, list[Tensor]]:
        """The entry that fits, traced when there is none; not `refuted`, whose place another one takes."""
        leaves: list[Tensor] = []
        structure = flatten([list(args), dict(sorted(kwargs.items()))], leaves)
        key = (
            structure,
            tuple((t.dtype, t.ndim, t.requires_grad) for t in leaves),
            context.grad_enabled,
            context.conv_algorithm,
            context.precision,
            context.executor,
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
            args, kwargs = unflatten(structure, iter(stand_ins))
            out_structure = flatten(self._function(*args, **kwargs), out_leaves)
            trace.expect_used_gradients()
            border, gradients = trace.grads.border(trace.value_of)
            trace.program.results = [trace.value_of(t) for t in out_leaves] + gradients

        trace.run(call, leaves)
        if not self._updates:
            trace.program.updates.clear()
            trace.program.block.ops = [op for op in trace.program.block if not op.info.writes_table]
        if refuted is None:
            trace.program.share_unequal(set())
        else:
            trace.program.learn_from(refuted.compiled.program)
        executor = context.executor or NATIVE
        passes.run(trace.program, executor.passes(self._pass_names))
        return _Entry(
            CompiledProgram(trace.program, executor=executor),
            trace.modes,
            [t.shape for t in leaves],
            out_structure,
            border,
        )


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
        self._told = False
        self._lock = threading.Lock()  # of the entries: held for a look, not while something is traced
        free_in_child(self)

    def find(
        self, key: Any, shapes: list[tuple[int, ...]], leaves: Sequence[Tensor], refuted: _Entry | None
    ) -> _Entry | None:
        with self._lock:
            for entry in self._entries.get(key, ()):
                if entry is not refuted and entry.fits(shapes, leaves):
                    self._entries.move_to_end(key)
                    return entry
        return None

    def all(self) -> list[_Entry]:
        with self._lock:
            return [entry for entries in self._entries.values() for entry in entries]

    def add(self, key: Any, entry: _Entry, refuted: _Entry | None) -> None:
        """Puts an entry there, in the place of one that other inputs have refuted."""
        with self._lock:
            self._entries[key] = [e for e in self._entries.get(key, ()) if e is not refuted] + [entry]
            self._entries.move_to_end(key)
            if not self._told and (len(self._entries) == self.MANY or len(self._entries[key]) == self.MANY):
                self._told = True
                self._warn(entry if len(self._entries[key]) == self.MANY else None)
            while sum(map(len, self._entries.values())) > self.MOST:
                oldest = next(iter(self._entries.values()))
                oldest.pop(0)
                if not oldest:
                    self._entries.popitem(last=False)

    def _warn(self, tied: _Entry | None) -> None:
        """Names the numbers that differ from call to call, or what reads the shapes that `tied` is for."""
        if tied is not None:
            reads = tied.compiled.program.shape_reads
            _log.warning(
                "program: %s was traced for %d shapes, and each trace takes time and memory: %s. Compute with shapes "
                "by operators (ops.extent, reshape with 0 and -1), or pass few shapes. At most %d traces are kept.",
                self._name,
                self.MANY,
                reads[0] if reads else "it depends on them",
                self.MOST,
            )
            return
        values: dict[int, set[Any]] = {}
        for structure, *_ in self._entries:
            for place, value in enumerate(static_values(structure)):
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
