"""A pass that orders operations so that memory is given back early."""

from __future__ import annotations

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import graph_pass
from framework.graph.reports import PassReport


@graph_pass(after=("fold_constants", "merge_equal_operations", "drop_dead_code", "fuse_batch_norm", "fuse_activation"))
def update_early(program: Program, report: PassReport) -> None:
    """What ends in new values of states runs as soon as it can: weight gradients, optimizer steps, averages.

    A weight's gradient is computed before its layer's input gradient, while fewer activations are alive, and an
    optimizer step frees the gradient at once. A step waits for the last reader of the weight it replaces, so that the
    new value can take the old one's memory.
    """
    side = _update_branches(program)
    waiting = _Waiting(program, side)
    ordered: list[Operation] = []

    def emit(op: Operation) -> None:
        pending = [op]
        while pending:
            ordered.append(pending[0])
            pending = pending[1:] + waiting.ready_after(pending[0])

    for op in waiting.ready_at_once():
        emit(op)
    for op in program.block:
        if op not in side:
            emit(op)
    done = set(ordered)
    ordered += [op for op in program.block if op not in done]  # steps that wait for each other's old values
    before = {op: i for i, op in enumerate(program.block)}
    moved = sum(after < before[op] for after, op in enumerate(ordered) if op in side)
    if moved:
        report.match(f"{moved} of {len(side)} operations that lead to new states run earlier")
    program.block.ops = ordered


def _update_branches(program: Program) -> set[Operation]:
    """Operations on which neither a result nor another heavy operation depends, only new values of states.

    One with an effect of its own (a table's look-up or step, Python code) is not among them, and keeps its place: a
    step of a table comes after the look-ups that came before it.
    """
    users, results = program.users(), set(program.results)
    side: set[Operation] = set()
    for op in reversed(program.block.ops):
        readers = [reader for v in op.outputs for reader in users.get(v, ())]
        if op.info.pure and results.isdisjoint(op.outputs) and all(r in side and not r.info.heavy for r in readers):
            side.add(op)
    return side


class _Waiting:
    """What each operation of the side branches waits for: producers of its inputs, readers of states it replaces."""

    def __init__(self, program: Program, side: set[Operation]) -> None:
        self._left: dict[Operation, set[Operation]] = {}
        self._waiters: dict[Operation, list[Operation]] = {}
        producers, users = program.producers(), program.users()
        replaced: dict[Value, list[Value]] = {}  # a value -> the states that it is the new value of
        for state, value in program.updates.items():
            replaced.setdefault(value, []).append(state)
        for op in program.block:
            if op not in side:
                continue
            needs = {producers[v] for v in op.inputs if v in producers}
            needs |= {r for v in op.outputs for s in replaced.get(v, ()) for r in users.get(s, ()) if r is not op}
            self._left[op] = needs
            for need in needs:
                self._waiters.setdefault(need, []).append(op)

    def ready_at_once(self) -> list[Operation]:
        """Those that wait for nothing."""
        return [op for op, needs in self._left.items() if not needs]

    def ready_after(self, op: Operation) -> list[Operation]:
        """Those that waited for `op` and nothing else any more."""
        ready = []
        for waiter in self._waiters.get(op, ()):
            self._left[waiter].discard(op)
            if not self._left[waiter]:
                ready.append(waiter)
        return ready
