#!/usr/bin/env python3
"""Claim: 20 million rows with 10 million distinct signs stream through training within 6 GB, at one rate to the end.

    python benchmarks/ctr_stream.py [--rows 20000000] [--model LR] [--keep 4]

A drawn log (suites.ctr.demo.drift: a power law over values that are born and fade) is written pass by pass, read by the
native reader in a drawn order and trained on, batch 4096. Only reading and training are timed. A pass ends as a run's
does: the table's counters decay, and signs that `--keep` passes have not seen leave. `--keep 0` keeps all of them.
The table shows each pass; the last lines compare the second fifth of the passes with the last one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from common import ROOT

if TYPE_CHECKING:
    from suites.ctr.task.ranking import CtrTask
    from suites.ctr.train.step import CtrStep

PASS, BATCH, LIMIT_GB = 1 << 20, 4096, 6.0
PAGE = 4096
COLUMNS = ("rows so far", "k rows/s", "k rows/CPU s", "rows of the table", "signs so far", "evicted", "GB", "loss")


@dataclass(frozen=True)
class Pass:
    """What one pass took.

    Attributes:
        rate: rows a second of reading and training; `of_cpu` a second of CPU time.
        held: rows of the table after it; `signs`: that were ever given one; `evicted`: that left so far.
        resident: bytes of this process, in GB.
        loss: mean of its batches.
    """

    rows: int
    rate: float
    of_cpu: float
    held: int
    signs: int
    evicted: int
    resident: float
    loss: float

    def cells(self) -> list[str]:
        """The columns of the table."""
        rates = [f"{self.rate / 1e3:.0f}", f"{self.of_cpu / 1e3:.0f}"]
        counts = [f"{n:,}" for n in (self.held, self.signs, self.evicted)]
        return [f"{self.rows:,}", *rates, *counts, f"{self.resident:.2f}", f"{self.loss:.4f}"]


def resident() -> float:
    """GB of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e9


def passes(a: argparse.Namespace, folder: Path) -> list[Pass]:
    """Train on all passes, and print a line for each."""
    sys.path.insert(0, str(ROOT))
    import framework
    from framework.nn import init
    from framework.optim import Adam
    from framework.table import Eviction
    from suites import ctr, engine
    from suites.ctr.demo.drift import DriftingLog
    from suites.ctr.schema import schema_of
    from suites.ctr.tables import TableSettings
    from suites.ctr.train.step import CtrStep

    framework.set_num_threads(a.threads)
    law = DriftingLog()
    eviction = Eviction(decay=0.9, least_score=0.0, most_unseen=a.keep) if a.keep else None
    sizes = {} if a.model == "LR" else {"dim": 8}
    task = ctr.CtrTask(
        model=engine.Factory.of(getattr(ctr, a.model), **sizes),
        schema=schema_of(law.schema()),
        table=TableSettings(eviction=eviction),
    )
    init.initialize(task.model, 0)
    step = CtrStep(task, Adam(task.model.named_parameters(), lr=1e-3))
    found: list[Pass] = []
    done = 0
    while a.rows - done >= BATCH:  # fewer rows make no batch
        rows = min(PASS, a.rows - done)
        path = folder / f"{len(found):04d}.tsv"
        law.write(path, rows, done // 65_536)
        done += rows
        found.append(one_pass(task, step, path, done, rows))
        path.unlink()
        print("| " + " | ".join(found[-1].cells()) + " |", flush=True)
    return found


def one_pass(task: CtrTask, step: CtrStep, path: Path, done: int, rows: int) -> Pass:
    """Read a file and train on it."""
    from suites.ctr.datasets import LogStream

    source = LogStream(task.schema, str(path.parent), [path.name])
    losses = []
    wall, cpu = time.perf_counter(), time.process_time()
    with source.loader(BATCH, shuffle=True, seed=0) as batches:
        for batch in batches:
            losses.append(sum(step([batch], 1e-3).losses.values()))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    task.table.shrink()
    stats = task.table.stats()
    loss = sum(losses) / len(losses)
    return Pass(done, rows / wall, rows / cpu, stats.rows, stats.admitted, stats.evicted, resident(), loss)


def verdict(found: Sequence[Pass]) -> dict[str, float]:
    """Rates and memory of the last fifth over those of the second one, and the most memory."""
    fifth = max(1, len(found) // 5)
    second, last = found[fifth : 2 * fifth] or found, found[-fifth:]

    def ratio(of: str) -> float:
        values = [median(getattr(p, of) for p in part) for part in (last, second)]
        return round(values[0] / values[1], 3)

    return {
        "rate": ratio("rate"),
        "of_cpu": ratio("of_cpu"),
        "resident": ratio("resident"),
        "most_gb": round(max(p.resident for p in found), 2),
        "signs": found[-1].signs,
    }


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    """Run, print and return the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--model", default="LR", choices=["LR", "FM"])
    parser.add_argument("--keep", type=int, default=4, help="passes that a sign stays without being seen; 0: for ever")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the passes to this file")
    a = parser.parse_args(words)
    print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        found = passes(a, Path(folder))
    told = verdict(found)
    print(
        f"last fifth of the passes over the second: rate {told['rate']}, rate of CPU time {told['of_cpu']}, memory "
        f"{told['resident']}; at most {told['most_gb']} GB of {LIMIT_GB:g}, {told['signs']:,} signs"
    )
    if a.json:
        a.json.write_text(json.dumps({"passes": [asdict(p) for p in found], "verdict": told}, indent=1) + "\n")
    return told


if __name__ == "__main__":
    main()
