#!/usr/bin/env python3
"""Claim: rows come through the shards' transport at a million keys a second at least, in batches as training has them.

    python benchmarks/cluster_transport.py [CASE ...] [--rows 1000000]

Two shards as processes, on this machine's loopback, and one client: pulls of 100 keys one after the other (what a
server of scores would ask), pulls of 20,000 different keys with two on their way (what a trainer asks at a batch of
4,096), and pushes of 20,000 with a window of four, logged. `publish_100000` writes a delta of 100,000 changed rows to a
file, `publish_all` writes all rows; changing them is not timed. The peer asks a table in its own process for the same.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import OURS, ROOT, Claim, Competitor, add_rows, run_claims, spread

DIM = 17
SIZES = {"pull_100": 100, "pull_20000": 20_000, "push_20000": 20_000, "publish_100000": 100_000}
CLAIMS = [
    Claim("pull_100", 0.005, 0.01),
    Claim("pull_20000", 0.1, 0.2),
    Claim("push_20000", 0.1, 0.2),
    Claim("publish_100000", 0.1, 0.2),
    Claim("publish_all", 0.1, 0.2),
]
PEER = "in process"


def measured(call: Callable[[int], Callable[[], object]], seconds: float, ahead: int) -> tuple[float, list[float]]:
    """Calls a second, and the seconds of each from asking to answer; `ahead` are on their way at the same time."""
    waiting: deque[tuple[float, Callable[[], object]]] = deque()
    took: list[float] = []
    start = time.perf_counter()
    number = 0
    while (now := time.perf_counter()) < start + seconds:
        waiting.append((now, call(number)))
        number += 1
        if len(waiting) > ahead:
            asked, wait = waiting.popleft()
            wait()
            took.append(time.perf_counter() - asked)
    return len(took) / (time.perf_counter() - start), took


def published(
    change: Callable[[], object], write: Callable[[bool], object], delta: bool, seconds: float
) -> tuple[float, list[float]]:
    """Publications a second of their own time, and the seconds of each; `change` is called before each, untimed."""
    write(False)
    took: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 3:
        change()
        began = time.perf_counter()
        write(delta)
        took.append(time.perf_counter() - began)
    return len(took) / sum(took), took


def shards(case: str, rows: int, seconds: float) -> tuple[float, list[float]]:
    """Ours."""
    from framework.table import Adam, Normal, Table
    from framework.table.remote import ShardRows, unique
    from tests.framework.table.remote.helpers import Processes

    made = Table(DIM, rule=Adam(), init=Normal(0.01), name="signs")
    with tempfile.TemporaryDirectory() as folder:
        running = Processes(folder, 2, dense=0, table=made, checkpoint_seconds=3600.0).ready(120)
        client = running.client(dim=DIM, window=4)
        rng = np.random.default_rng(0)
        try:
            client.hello(1, 1)
            number = 0
            for part in np.array_split(np.arange(rows), -(-rows // 50_000)):
                number += 1
                found = unique(part)
                client.push(number, found, np.zeros((len(part), DIM), np.float32), 0.1)
            client.settle()
            if case.startswith("publish"):
                held, delta = ShardRows(client, "signs"), case != "publish_all"

                def change() -> None:
                    nonlocal number
                    for part in np.array_split(rng.permutation(rows)[: SIZES["publish_100000"]], 5):
                        number += 1
                        client.push(number, unique(part), np.ones((len(part), DIM), np.float32), 0.1)
                    client.settle()

                path = Path(folder) / "published"
                return published(change, lambda again: held.snapshot(path, delta=again), delta, seconds)
            batches = [unique(rng.integers(0, rows, SIZES[case])) for _ in range(50)]
            if case.startswith("pull"):
                return measured(lambda i: client.pull(batches[i % 50]), seconds, 2 if "20000" in case else 0)
            grads = [np.zeros((len(b.keys), DIM), np.float32) for b in batches]

            def push(i: int) -> Callable[[], object]:
                sent = client.push(number + 1 + i, batches[i % 50], grads[i % 50], 0.1)
                return lambda: [part.result() for part in sent.parts]

            return measured(push, seconds, 3)
        finally:
            client.close()
            running.close()


def in_process(case: str, rows: int, seconds: float) -> tuple[float, list[float]]:
    """The table alone."""
    from framework.table import Adam, Normal, Table

    made = Table(DIM, rule=Adam(), init=Normal(0.01), name="signs")
    made.update(np.arange(rows), np.zeros((rows, DIM), np.float32))
    rng = np.random.default_rng(0)
    if case.startswith("publish"):

        def change() -> None:
            keys = rng.permutation(rows)[: SIZES["publish_100000"]]
            made.update(keys, np.ones((len(keys), DIM), np.float32))

        with tempfile.TemporaryDirectory() as folder:
            path, delta = Path(folder) / "published", case != "publish_all"
            return published(change, lambda again: made.snapshot(path, delta=again), delta, seconds)
    batches = [np.unique(rng.integers(0, rows, SIZES[case])) for _ in range(50)]
    grads = [np.zeros((len(b), DIM), np.float32) for b in batches]

    def call(i: int) -> Callable[[], object]:
        if case.startswith("pull"):
            return lambda: made.lookup(batches[i % 50])
        return lambda: made.update(batches[i % 50], grads[i % 50])

    return measured(call, seconds, 0)


def run(a: argparse.Namespace) -> None:
    """Time one side and print the JSON line that `common.measure` reads."""
    side, case = a.side, a.cases[0]
    sys.path.insert(0, str(ROOT))
    import framework

    framework.set_num_threads(1)
    calls, took = (shards if side == OURS else in_process)(case, a.rows, a.seconds)
    p50, p99 = (round(float(np.percentile(took, p)) * 1e3, 3) for p in (50, 99))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    rate = round(calls * SIZES.get(case, a.rows) / 1e6, 4)
    print(json.dumps({"rate": rate, "unit": "M keys/s", "peak_rss_mb": memory, "step_ms": p50, "p99_ms": p99}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Two shards, and a table in one process."""
    given = ["--seconds", str(a.seconds), "--rows", str(a.rows), case]
    return [Competitor(side, [sys.executable, __file__, "--side", side, *given]) for side in (OURS, PEER)]


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims(
        "cluster_transport",
        __doc__,
        CLAIMS,
        competitors,
        run,
        words,
        options=add_rows(1_000_000),
        figures=lambda found: {key: [m[key] for m in found[OURS]] for key in ("step_ms", "p99_ms")},
        told=lambda r: f"{r['case']}: p50 {spread(r['step_ms'])} ms, p99 {spread(r['p99_ms'])} ms",
    )


if __name__ == "__main__":
    main()
