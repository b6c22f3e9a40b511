"""What passes did and nearly did: a report each, and the explanation of a Program that puts them together.

A pass that does not fire must be observable: it notes every match, and every place that fits but for one condition.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework.graph.ir import Operation, Program

SHOWN = 20  # lines of a kind that an explanation prints for each pass


@dataclass
class PassReport:
    """One run of one pass.

    Attributes:
        name: the pass.
        matched: one line for each rewrite.
        missed: one line for each place that nearly fitted, with the reason.
        is_pass: whether `matched` counts rewrites; else it is a list of facts.
    """

    name: str
    matched: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    is_pass: bool = True

    def match(self, line: str) -> None:
        """Notes a rewrite."""
        self.matched.append(line)

    def miss(self, what: str, why: str) -> None:
        """Notes a place that nearly fitted: `what` (such as `chain_of(conv, relu)`) and the condition that failed."""
        self.missed.append(f"{what} not fused: {why}")


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


class Explanation:
    """What every pass that ran on a Program matched and nearly matched; print it.

    >>> print(step.explain(images, labels))
    """

    def __init__(self, reports: Iterable[PassReport]) -> None:
        self.reports = list(reports)

    def __iter__(self) -> Iterator[PassReport]:
        return iter(self.reports)

    def __getitem__(self, name: str) -> PassReport:
        """All runs of one pass, joined; empty where it did not run."""
        joined = PassReport(name)
        for r in self.reports:
            if r.name == name:
                joined.is_pass = r.is_pass
                joined.matched += r.matched
                joined.missed += r.missed
        return joined

    def text(self, shown: int | None = SHOWN) -> str:
        """Readable text grouped by pass: `+` before what matched, `-` before what nearly did.

        Args:
            shown: at most so many lines of a kind for each pass; None for all.
        """
        lines = []
        for name in dict.fromkeys(r.name for r in self.reports):
            r = self[name]
            lines.append(f"{name}: {len(r.matched)} matched, {len(r.missed)} nearly" if r.is_pass else f"{name}:")
            for sign, found in (("+", r.matched), ("-", r.missed)):
                lines += [f"  {sign} {line}" for line in found[:shown]]
                if shown is not None and len(found) > shown:
                    lines.append(f"  {sign} ... and {len(found) - shown} more")
        return "\n".join(lines) or "no pass ran"

    def __str__(self) -> str:
        return self.text()


def name_of(op: Operation) -> str:
    """Such as `conv2d %12`: the operator and its first result."""
    return f"{op.name} {op.outputs[0]}" if op.outputs else op.name


def place_of(op: Operation) -> str:
    """Such as ` (model.py:31)`: the user's line, or nothing where it is not known."""
    return f" ({os.path.basename(op.where)})" if op.where else ""


def chain_of(*ops: Operation) -> str:
    """Such as `conv2d %12 -> relu %13 (model.py:30)`, with the line of the last one."""
    return " -> ".join(map(name_of, ops)) + place_of(ops[-1])
