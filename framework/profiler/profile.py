"""Profile: records what runs inside it, and sums it up by operator or call by call.

    with Profile() as p:
        step(images)
    print(p.table())
    p.write_chrome_trace("trace.json")  # chrome://tracing, ui.perfetto.dev

It sees the thread that entered it, Programs and eager operators alike; nothing is recorded outside of a Profile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from framework import _core
from framework.atomic import write_text
from framework.context import context
from framework.errors import AttributeValueError
from framework.graph import compiled
from framework.graph.ir import Program
from framework.profiler.call import Call as Call
from framework.profiler.chrome_trace import chrome_trace

DEFAULT_LIMIT = 1_000_000  # calls; some 500 MB


@dataclass(frozen=True)
class Row:
    """Calls that were summed up.

    Attributes:
        name: what they have in common.
        implementation: how they were computed.
        calls: how many there were.
        seconds: their time in all.
        share: of the time of all operators.
        flops, bytes: in all; see `framework.profiler.work`.
        detail: for single calls, shapes and the user's line.
    """

    name: str
    implementation: str
    calls: int
    seconds: float
    share: float
    flops: int
    bytes: int
    detail: str = ""

    @property
    def gflops_per_second(self) -> float:
        """Achieved rate of arithmetic in GFLOP/s, by the flops of the definition."""
        return self.flops / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def gbytes_per_second(self) -> float:
        """Achieved rate of memory traffic in GB/s, were no byte moved twice."""
        return self.bytes / self.seconds * 1e-9 if self.seconds else 0.0


class Profile:
    """Records the operators that its `with` block runs; it can be entered again, and what it records adds up.

    Args:
        limit: calls that are kept; what comes after them is counted only (`dropped`).

    Attributes:
        wall_seconds: time inside of the `with` blocks.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise AttributeValueError(f"Profile: limit is {limit}; it must be 1 or more")
        self._recorder = _core.Recorder(limit)
        self._calls: list[Call] = []
        self._programs: dict[int, compiled.CompiledProgram] = {}
        self._blocks: dict[int, Program] = {}
        self._entered = 0
        self.wall_seconds = 0.0

    def __enter__(self) -> Profile:
        """Starts recording; raises NotSupportedError if another Profile records this thread."""
        self._recorder.start()
        context.programs, context.blocks = self._programs, self._blocks
        self._entered = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stops recording."""
        self.wall_seconds += (time.perf_counter_ns() - self._entered) * 1e-9
        context.programs = context.blocks = None
        self._recorder.stop()

    @property
    def calls(self) -> list[Call]:
        """All calls, in order."""
        self._calls += [self._call(*record) for record in self._recorder.take()]
        return self._calls

    @property
    def programs(self) -> list[compiled.CompiledProgram]:
        """The Programs that ran, in the order of their first run; for their `memory_report()`."""
        return list(self._programs.values())

    def blocks(self) -> list[int]:
        """What the calls inside of control flow have as their `program`."""
        return list(self._blocks)

    @property
    def dropped(self) -> int:
        """Calls beyond the limit, which were not kept."""
        return int(self._recorder.dropped)

    @property
    def operator_seconds(self) -> float:
        """Time inside of operators."""
        return sum(call.seconds for call in self.calls)

    def operators(self) -> list[Row]:
        """Calls summed up by operator, with a convolution's window, and implementation; the longest time first."""
        return self._rows((call.label, call.implementation, "") for call in self.calls)

    def details(self) -> list[Row]:
        """Calls summed up by operator, implementation, shapes and the user's line; the longest time first."""
        keys = ((c.label, c.implementation, f"{c.shapes}  {c.where}".rstrip()) for c in self.calls)
        return self._rows(keys)

    def table(self, rows: int | None = None, details: int = 0) -> str:
        """`operators()` as text, the first `rows` of them if given, then the first `details` rows of `details()`."""
        operators = self.operators()
        shown = operators[:rows]
        lines = [self.headline(), *_aligned(COLUMNS, [cells(row) for row in shown])]
        if rest := operators[len(shown) :]:
            spent, share = sum(row.seconds for row in rest), sum(row.share for row in rest)
            lines.append(f"and {len(rest)} rows more, {spent * 1e3:.2f} ms in all, {share:.1%}")
        if details:
            wide = [(*cells(row), row.detail) for row in self.details()[:details]]
            lines += ["", *_aligned((*COLUMNS, "shapes, line"), wide)]
        return "\n".join(lines)

    def headline(self) -> str:
        """One line: time in all, inside of operators, and what was not kept."""
        inside, wall, count = self.operator_seconds, self.wall_seconds or 1e-9, len(self.calls)
        text = f"{wall * 1e3:.1f} ms, {inside * 1e3:.1f} ms of it ({inside / wall:.0%}) in {count} operator calls"
        return text if not self.dropped else f"{text}; {self.dropped} more calls came after the limit and are left out"

    def listing(self) -> str:
        """The Programs that ran, as they print, with each operation's implementation and mean time at its line."""
        runs: dict[tuple[int, int], list[Call]] = {}
        for call in self.calls:
            runs.setdefault((call.program, call.instruction), []).append(call)
        texts = []
        for number, watched in self._programs.items():
            comments = {i: _comment(calls) for (program, i), calls in runs.items() if program == number}
            texts.append(watched.program.text(comments))
        return "\n\n".join(texts)

    def write_chrome_trace(self, path: Path | str) -> None:
        """Writes all calls as JSON for chrome://tracing and ui.perfetto.dev."""
        write_text(Path(path), json.dumps(chrome_trace(self.calls)) + "\n")

    def _rows(self, keys: Iterable[tuple[str, str, str]]) -> list[Row]:
        groups: dict[tuple[str, str, str], list[Call]] = {}
        for key, call in zip(keys, self.calls, strict=True):
            groups.setdefault(key, []).append(call)
        total = self.operator_seconds or 1.0
        rows = []
        for (name, implementation, detail), calls in groups.items():
            seconds = sum(c.seconds for c in calls)
            flops, moved = (sum(getattr(c.work, kind) for c in calls) for kind in ("flops", "bytes"))
            rows.append(Row(name, implementation, len(calls), seconds, seconds / total, flops, moved, detail))
        return sorted(rows, key=lambda row: -row.seconds)

    def _call(
        self, name: str, program: int, instruction: int, begin: int, end: int, implementation: str, *types: Any
    ) -> Call:
        watched = self._programs.get(program)
        source = watched.program if watched else self._blocks.get(program)
        where = source.block.ops[instruction].where if source else ""
        inputs, outputs, attrs = types
        return Call(name, begin, end, implementation, inputs, outputs, attrs, where, program, instruction)


def _comment(calls: list[Call]) -> str:
    mean = sum(call.seconds for call in calls) / len(calls)
    names = dict.fromkeys(call.implementation for call in calls if call.implementation)  # may change with the shapes
    return "; ".join([*names, f"{mean * 1e3:.3f} ms"])


COLUMNS = ("operator", "implementation", "calls", "ms", "share", "GFLOP/s", "GB/s")


def cells(row: Row) -> tuple[str, ...]:
    """A row's text in each of `COLUMNS`."""
    rate = f"{row.gflops_per_second:.1f}" if row.flops else ""
    return (
        row.name,
        row.implementation,
        str(row.calls),
        f"{row.seconds * 1e3:.2f}",
        f"{row.share:.1%}",
        rate,
        f"{row.gbytes_per_second:.1f}",
    )


def _aligned(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines with texts to the left and numbers to the right of their columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    left = ("operator", "implementation", "shapes, line")

    def line(texts: tuple[str, ...]) -> str:
        padded = [t.ljust(w) if name in left else t.rjust(w) for name, t, w in zip(header, texts, widths, strict=True)]
        return "  ".join(padded).rstrip()

    return [line(header), *map(line, rows)]
