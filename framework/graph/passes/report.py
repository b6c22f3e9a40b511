"""What a pass is, and how its report names operations."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from framework.graph.ir import Operation, Program
from framework.graph.reports import PassReport


@dataclass(frozen=True)
class Pass:
    """A named rewrite and what it relies on.

    Attributes:
        requires: passes that must have run before it.
        after: passes that must not come later than it where both run.
        before: passes that must come later than it where both run, such as one that clears up what it leaves.
    """

    name: str
    rewrite: Callable[[Program, PassReport], None]
    requires: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def __call__(self, program: Program) -> PassReport:
        """Rewrites the Program and its blocks, and says what was found."""
        report = PassReport(self.name)
        self.rewrite(program, report)
        for op in program.block:
            for block in op.blocks:
                inner = self(block)
                report.matched += [f"in {name_of(op)}: {line}" for line in inner.matched]
                report.missed += [f"in {name_of(op)}: {line}" for line in inner.missed]
        return report


def graph_pass(
    *, requires: tuple[str, ...] = (), after: tuple[str, ...] = (), before: tuple[str, ...] = ()
) -> Callable[[Callable[[Program, PassReport], None]], Pass]:
    """Makes a function `(program, report) -> None` a pass of its name; the arguments are those of `Pass`."""
    return lambda rewrite: Pass(rewrite.__name__, rewrite, requires, after, before)


def name_of(op: Operation) -> str:
    """Such as `conv2d %12`: the operator and its first result."""
    return f"{op.name} {op.outputs[0]}" if op.outputs else op.name


def place_of(op: Operation) -> str:
    """Such as ` (model.py:31)`: the user's line, or nothing where it is not known."""
    return f" ({os.path.basename(op.where)})" if op.where else ""


def chain_of(*ops: Operation) -> str:
    """Such as `conv2d %12 -> relu %13 (model.py:30)`, with the line of the last one."""
    return " -> ".join(map(name_of, ops)) + place_of(ops[-1])
