#!/usr/bin/env python3
"""Claim: trainers and shards killed at random lose no acknowledged update and take none twice, and cost no quality.

    python benchmarks/cluster_faults.py [--rows 300000] [--passes 12] [--pause 4] [--calm 1]

A run over the processes of this machine is trained with `kill -9` of a trainer, a shard, or both every few seconds at
random, until it is done; then undisturbed, `--calm` times. Each sign's row counts how often it was in a batch. After
every run the counters of all signs must be what the log says, exactly. The AUC on held-out rows may differ by 0.002
from the mean of the undisturbed runs. These differ among themselves too, as trainers do not wait for each other: their
spread is told.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from cluster_training import write_log
from common import ROOT, environment

MOST = 0.002
PARTS = {"shard": "framework.table.remote", "trainer": "suites.ctr.cluster.trainer"}


def options(folder: Path, passes: int) -> list[str]:
    """What both runs are made with."""
    log = f"{{type: LogStream, root: {folder}, files: ['%s.tsv'], threads: 1, block_bytes: 262144}}"
    return [
        f"data.train.dataset={log % 'log'}",
        f"data.eval.dataset={{type: ClickLog, root: {folder}, files: [test.tsv]}}",
        "data.more_eval.test=$delete",
        f"data.schema={folder / 'schema.json'}",
        "data.train.batch_size=512",
        "data.train.shuffle=false",  # so that no short batch is left out, and each row counts
        "model.dim=8",
        "model.hidden=[64, 32]",
        f"runtime.epochs={passes}",
        "runtime.steps=null",
        f"data.root={folder}",
        "cluster.checkpoint_seconds=15.0",
        "cluster.most_restarts=10000",
        "cluster.shares=8",
    ]


def members() -> dict[str, list[tuple[int, Path]]]:
    """Process ids and specifications of the run's processes, which this one started."""
    found: dict[str, list[tuple[int, Path]]] = {"shard": [], "trainer": []}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and len(words) > 3:
            for kind, module in PARTS.items():
                if words[2] == module:
                    found[kind].append((int(entry.name), Path(words[3])))
    return found


def kill_now_and_then(stop: threading.Event, pause: float, killed: dict[str, int]) -> None:
    """Until `stop`: every `pause` seconds on average, kill -9 of one that is at work, or of one of each kind."""
    draw = random.Random(0)
    while not stop.wait(draw.uniform(0.2, 1.8) * pause):
        there = members()
        up = [pid for pid, spec in there["shard"] if pid == announced(spec)]
        begun = [pid for pid, spec in there["trainer"] if "begins with" in log_of(spec)]
        for kind in draw.choice([["shard"], ["trainer"], ["shard", "trainer"]]):
            choice = begun if kind == "trainer" else up
            if choice:
                os.kill(draw.choice(choice), signal.SIGKILL)
                killed[kind] += 1


def announced(spec: Path) -> int:
    """The process id of the shard that takes requests; 0 where none does."""
    try:
        return int(json.loads(Path(json.loads(spec.read_text())["announce"]).read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return 0


def log_of(spec: Path) -> str:
    """What a process said."""
    try:
        return spec.with_name(spec.name.replace(".spec.json", ".log")).read_text()
    except OSError:
        return ""


def train(folder: Path, name: str, passes: int) -> tuple[float, float]:
    """AUC on held-out rows, and seconds."""
    from suites.engine.training import train_on_cluster

    start = time.perf_counter()
    words = options(folder, passes)
    train_on_cluster(Path("ctr/deepfm_csv"), words, address="processes", runs=folder / "runs", name=name)
    figures = json.loads((folder / "runs" / name / "metrics.json").read_text())
    return figures["auc"], time.perf_counter() - start


def wrong_counters(folder: Path, name: str, passes: int, rows: int) -> tuple[int, int]:
    """How many signs there are, and how many have a counter that is not what the log says."""
    from framework.table import Table
    from suites.engine.building import build_task, read_config

    run = folder / "runs" / name
    task = build_task(read_config(run))
    with task.train_loader(seed=0, workers=0) as loader:
        signs = np.concatenate([batch["sparse"].ravel() for batch in loader])
    keys, times = np.unique(signs, return_counts=True)
    assert signs.size == rows * 26, "the log was not read whole"
    saved = next(p for p in (run / "weights").glob("last.????????") if p.is_dir())
    table = Table.open(saved / "signs")
    return len(keys), int((table.counts(keys)[:, 0] != times * passes).sum()) + abs(len(table) - len(keys))


def run_once(folder: Path, name: str, a: argparse.Namespace) -> dict[str, Any]:
    """Train, look at the counters, and tell the figures."""
    auc, seconds = train(folder, name, a.passes)
    signs, wrong = wrong_counters(folder, name, a.passes, a.rows)
    found = {"run": name, "auc": auc, "seconds": seconds, "signs": signs, "wrong": wrong}
    shutil.rmtree(folder / "runs" / name)
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def run_killed(folder: Path, a: argparse.Namespace) -> dict[str, Any]:
    """The same while processes are killed."""
    stop, killed = threading.Event(), {"shard": 0, "trainer": 0}
    killer = threading.Thread(target=kill_now_and_then, args=(stop, a.pause, killed), daemon=True)
    killer.start()
    try:
        return run_once(folder, "killed", a) | {"killed": killed}
    finally:
        stop.set()
        killer.join()


def main() -> int:
    """Run all and compare; the exit status is 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two kills, on average")
    parser.add_argument("--calm", type=int, default=1, help="undisturbed runs, 1 or more")
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    folder = Path(tempfile.mkdtemp())
    try:
        write_log(folder, 20_000, seed=1)
        (folder / "log.tsv").rename(folder / "test.tsv")
        write_log(folder, a.rows)
        runs = [run_killed(folder, a)]
        runs += [run_once(folder, f"calm-{i}", a) for i in range(a.calm)]
        calm = [run["auc"] for run in runs[1:]]
        apart = abs(runs[0]["auc"] - float(np.mean(calm)))
        good = apart <= MOST and not any(run["wrong"] for run in runs)
        told = {"auc_apart": apart, "spread_of_calm": max(calm) - min(calm), "runs": runs, "good": good}
        print(json.dumps(told | {"environment": environment()}, indent=1))
        if a.json:
            a.json.write_text(json.dumps(told) + "\n")
        return 0 if good else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
