"""What passes did and nearly did: a report each, and the explanation of a Program that puts them together.

A pass that does not fire must be observable: it notes every match, and every place that fits but for one condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

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
