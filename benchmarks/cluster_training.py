#!/usr/bin/env python3
"""Claim: 2 shards and 2 trainers on one machine train at half the rate of one process, at least.

    python benchmarks/cluster_training.py [CASE ...] [--rows 200000] [--address local]

`--address local` has a Ray of this machine start the shards and trainers; without it they are plain child processes.

DeepFM on a drawn log like Criteo's: 26 sparse features whose values follow a power law, 13 dense ones, vectors of 16,
layers of 400, 400, 400; read from text by both sides. Both use the same cores, so the ratio is the price of four
processes that talk, not what more machines bring.
The rate is that of batches which are trained between the first third of the time and the end of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from common import OURS, ROOT, Claim, Competitor, add_rows, run_claims, spread

CLAIMS = [Claim("cluster_b4096", 0.5, 0.7), Claim("cluster_b512", 0.3, 0.5)]
SPARSE, DENSE = 26, 13
PEER = "one process"


def write_log(folder: Path, rows: int, seed: int = 0) -> None:
    """A log as tab-separated text, and its schema."""
    rng = np.random.default_rng(seed)
    sparse = np.minimum(rng.zipf(1.3, (rows, SPARSE)), 1 << 20)
    dense = rng.integers(0, 100, (rows, DENSE))
    logit = 0.8 * np.sin(sparse[:, 0]) + 0.6 * np.sin(sparse[:, 1] * 3) + 0.01 * (dense[:, 0] - 50)
    labels = (rng.random(rows) < 1 / (1 + np.exp(1 - logit))).astype(int)
    whole = np.concatenate([labels[:, None], dense, sparse], axis=1)
    names = ["label", *(f"d{i}" for i in range(DENSE)), *(f"s{i}" for i in range(SPARSE))]
    with (folder / "log.tsv").open("w") as log:
        for part in np.array_split(whole, -(-rows // 65_536)):
            log.writelines("\t".join(map(str, row)) + "\n" for row in part.tolist())
    features = {f"s{i}": {"type": "Sparse"} for i in range(SPARSE)}
    features |= {f"d{i}": {"type": "Dense", "transform": "log"} for i in range(DENSE)}
    schema = {"format": {"delimiter": "\t", "header": False, "columns": names}, "features": features}
    (folder / "schema.json").write_text(json.dumps({**schema, "labels": {"label": {}}}))


def options(folder: Path, batch: int, steps: int) -> list[str]:
    """What a run of either side is made with."""
    stream = f"{{type: LogStream, root: {folder}, files: [log.tsv], threads: 1}}"
    return [
        f"data.train.dataset={stream}",
        f"data.eval.dataset={stream}",
        "data.more_eval.test=$delete",
        f"data.schema={folder / 'schema.json'}",
        f"data.train.batch_size={batch}",
        "model.dim=16",
        "model.hidden=[400, 400, 400]",
        "model.dropout=0.0",
        "runtime.epochs=null",
        f"runtime.steps={steps}",
        "runtime.checkpoint.every=1000000",
        "progressive.window=0",
        f"data.root={folder}",
    ]


class Timer:
    """Counts batches by time, and gives their rate behind the first third."""

    def __init__(self, batch: int, seconds: float) -> None:
        self.batch, self.seconds, self.points = batch, seconds, list[tuple[float, int, float]]()

    def note(self, done: int) -> bool:
        """Whether there has been enough."""
        self.points.append((time.perf_counter(), done, cpu_seconds()))
        return self.points[-1][0] - self.points[0][0] > self.seconds

    def rates(self) -> tuple[float, float]:
        """Samples a second, and a second of CPU time of all processes, which others on the machine disturb less."""
        begin = self.points[0][0] + self.seconds / 3
        (first, a, c), (last, b, d) = next(p for p in self.points if p[0] >= begin), self.points[-1]
        return (b - a) * self.batch / (last - first), (b - a) * self.batch / (d - c)


def cpu_seconds() -> float:
    """CPU time so far of this process and of all that it and its children started."""
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    ours, size = {os.getpid()}, 0
    while size < len(ours):
        size = len(ours)
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return sum(ticks.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def one_process(folder: Path, batch: int, seconds: float, threads: int) -> tuple[float, float]:
    """Samples a second of `paddock train`."""
    from suites.engine.train.loop import Hook, TrainingLoop
    from suites.engine.train.training import train

    timer = Timer(batch, seconds)

    class Stop(Hook):
        def after_step(self, loop: TrainingLoop) -> None:
            float(next(iter(loop.losses.values())))
            if timer.note(loop.step):
                raise KeyboardInterrupt

    words = [*options(folder, batch, 10**9), f"runtime.threads={threads}"]
    with contextlib.suppress(KeyboardInterrupt):
        train(Path("ctr/deepfm_csv"), words, runs=folder / "runs", name="one", hooks=[Stop()])
    return timer.rates()


def cluster(folder: Path, batch: int, seconds: float, address: str, more: Sequence[str] = ()) -> tuple[float, float]:
    """Samples a second of two shards and two trainers, each a process with one thread; `more` overrides."""
    from suites.ctr.cluster import head as heads
    from suites.engine.train.training import train_on_cluster

    timer = Timer(batch, seconds)
    made: list[heads.Head] = []

    class Watched(heads.Head):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def watch() -> None:
        while not made or not made[0]._work.batches:
            time.sleep(0.1)
        while not timer.note(made[0]._work.batches):
            time.sleep(0.2)
        made[0].interrupted = True

    threading.Thread(target=watch, daemon=True).start()
    words = [*options(folder, batch, 10**9), "cluster.shards=2", "cluster.trainers=2", *more]
    with patch("suites.ctr.cluster.run.Head", Watched):
        train_on_cluster(Path("ctr/deepfm_csv"), words, address=address, runs=folder / "runs", name="cluster")
    return timer.rates()


def run(a: argparse.Namespace) -> None:
    """Time one side and print the JSON line that `common.measure` reads."""
    side, case, rows, seconds, threads = a.side, a.cases[0], a.rows, a.seconds, a.threads
    sys.path.insert(0, str(ROOT))
    batch = int(case.rpartition("_b")[2])
    folder = Path(tempfile.mkdtemp())
    try:
        write_log(folder, rows)
        if side == OURS:
            rate, of_cpu = cluster(folder, batch, seconds, a.address)
        else:
            rate, of_cpu = one_process(folder, batch, seconds, threads)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told = {"rate": round(rate), "unit": "samples/s", "peak_rss_mb": max(usage) // 1024, "step_ms": 0}
    print(json.dumps(told | {"of_cpu": round(of_cpu)}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """A cluster on this machine, and one process."""
    given = ["--seconds", str(a.seconds), "--threads", str(a.threads), "--rows", str(a.rows)]
    given += ["--address", a.address, case]
    return [Competitor(side, [sys.executable, __file__, "--side", side, *given]) for side in (OURS, PEER)]


def of_cpu(found: dict[str, list[dict]]) -> dict[str, list[float]]:
    """Samples a second of CPU of the cluster, and their ratio to those of one process."""
    ours, peers = ([m["of_cpu"] for m in found.get(name, [])] for name in (OURS, PEER))
    return {"of_cpu": ours, "cpu_ratios": [x / y for x, y in zip(ours, peers, strict=False)]}


def told(result: Mapping[str, Any]) -> str:
    """What a case takes of the processors."""
    rate, ratio = spread(result["of_cpu"], 0), spread(result["cpu_ratios"])
    return f"{result['case']}: {rate} samples a second of CPU, {ratio} of one process"


def add_options(parser: argparse.ArgumentParser) -> None:
    """--rows and --address."""
    add_rows(200_000)(parser)
    parser.add_argument("--address", choices=("processes", "local"), default="processes", help="see above")


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims(
        "cluster_training",
        __doc__,
        CLAIMS,
        competitors,
        run,
        words,
        options=add_options,
        figures=of_cpu,
        told=told,
    )


if __name__ == "__main__":
    main()
