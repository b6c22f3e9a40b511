#!/usr/bin/env python3
"""Claim: trainers and shards killed at random lose no acknowledged update and take none twice, and cost no quality.

    python benchmarks/cluster_faults.py [--rows 200000] [--passes 4] [--pause 3] [--pairs 6]

A pair is two runs over the processes of this machine with the same seed: one undisturbed, one with `kill -9` of a
trainer, a shard, or both every few seconds at random, until it is done. Each sign's row counts how often it was in a
batch. After every run the counters of all signs must be what the log says, exactly.

The AUC on held-out rows may differ by 0.002. Runs differ anyway, as trainers do not wait for each other, so it is the
mean difference of the pairs that is judged, with its 95 % interval (Student's t): within 0.002, if all of the interval
is; apart, if none of it is; else undecided. The rate falls to 0 at the end, so that the last batches do not decide.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
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


def options(folder: Path, passes: int, seed: int) -> list[str]:
    """What both runs of a pair are made with."""
    return [
        f"data.train.dataset={{type: ClickLog, root: {folder}, files: [log.tsv]}}",
        f"data.eval.dataset={{type: ClickLog, root: {folder}, files: [test.tsv]}}",
        "data.more_eval.test=$delete",
        f"data.schema={folder / 'schema.json'}",
        "data.train.batch_size=512",
        "data.train.shuffle=false",  # so that no short batch is left out, and each row counts
        "model.dim=8",
        "model.hidden=[64, 32]",
        f"runtime.epochs={passes}",
        f"runtime.seed={seed}",
        "schedule={type: Polynomial, base_lr: 1.0e-3, power: 1.0}",
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
            words = (entry / "cmdline").read_bytes().decode().rstrip("\0").split("\0")
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and len(words) > 3:
            for kind, module in PARTS.items():
                if module in words:
                    found[kind].append((int(entry.name), Path(words[-1])))
    return found


def kill_now_and_then(stop: threading.Event, pause: float, killed: dict[str, int], seed: int) -> None:
    """Until `stop`: every `pause` seconds on average, kill -9 of one that is at work, or of one of each kind."""
    draw = random.Random(seed)
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


def train(folder: Path, name: str, passes: int, seed: int) -> tuple[float, float]:
    """AUC on held-out rows, and seconds."""
    from suites.engine.train.training import train_on_cluster

    start = time.perf_counter()
    words = options(folder, passes, seed)
    train_on_cluster(Path("ctr/deepfm_csv"), words, address="processes", runs=folder / "runs", name=name)
    figures = json.loads((folder / "runs" / name / "metrics.json").read_text())
    return figures["auc"], time.perf_counter() - start


def wrong_counters(folder: Path, name: str, passes: int, rows: int) -> tuple[int, int]:
    """How many signs there are, and how many have a counter that is not what the log says."""
    from framework.table import Table
    from suites.ctr.task.ground import ClickTask
    from suites.engine.config.building import build_task, read_config

    run = folder / "runs" / name
    task = build_task(read_config(run))
    assert isinstance(task, ClickTask)
    with task.train_loader(seed=0, workers=0) as loader:
        signs = np.concatenate([batch["sparse"].ravel() for batch in loader])
    keys, times = np.unique(signs, return_counts=True)
    assert signs.size == rows * 26, "the log was not read whole"
    saved = next(p for p in (run / "weights").glob("last.????????") if p.is_dir())
    table = Table.open(saved / "signs")
    return len(keys), int((table.counts(keys)[:, 0] != times * passes).sum()) + abs(len(table) - len(keys))


def run_once(folder: Path, name: str, a: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train, look at the counters, and tell the figures."""
    auc, seconds = train(folder, name, a.passes, seed)
    signs, wrong = wrong_counters(folder, name, a.passes, a.rows)
    found = {"run": name, "auc": auc, "seconds": seconds, "signs": signs, "wrong": wrong}
    shutil.rmtree(folder / "runs" / name)
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def run_killed(folder: Path, a: argparse.Namespace, seed: int) -> dict[str, Any]:
    """The same while processes are killed."""
    stop, killed = threading.Event(), {"shard": 0, "trainer": 0}
    killer = threading.Thread(target=kill_now_and_then, args=(stop, a.pause, killed, seed), daemon=True)
    killer.start()
    try:
        return run_once(folder, f"killed-{seed}", a, seed) | {"killed": killed}
    finally:
        stop.set()
        killer.join()


def judged(differences: list[float]) -> dict[str, Any]:
    """The mean difference, half of its 95 % interval, and what that says of the bound."""
    mean = statistics.mean(differences)
    if len(differences) < 2:
        return {"mean": mean, "half": None, "verdict": "undecided"}
    from scipy.stats import t

    half = float(t.ppf(0.975, len(differences) - 1)) * statistics.stdev(differences) / len(differences) ** 0.5
    verdict = "within" if abs(mean) + half <= MOST else "apart" if abs(mean) - half > MOST else "undecided"
    return {"mean": mean, "half": half, "verdict": verdict}


def main() -> int:
    """Run all pairs and judge; the exit status is 1 where the claim does not hold, 2 where it is undecided."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--test-rows", type=int, default=100_000, help="held out, for the AUC")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two kills, on average")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    folder = Path(tempfile.mkdtemp())
    try:
        write_log(folder, a.test_rows, seed=1)
        (folder / "log.tsv").rename(folder / "test.tsv")
        write_log(folder, a.rows)
        calm, killed = [], []
        for seed in range(a.pairs):
            calm.append(run_once(folder, f"calm-{seed}", a, seed))
            killed.append(run_killed(folder, a, seed))
        found = judged([k["auc"] - c["auc"] for c, k in zip(calm, killed, strict=True)])
        wrong = sum(run["wrong"] for run in (*calm, *killed))
        told = {**found, "wrong": wrong, "calm": calm, "killed": killed}
        print(json.dumps(told | {"environment": environment()}, indent=1))
        if a.json:
            a.json.write_text(json.dumps(told) + "\n")
        return 1 if wrong or found["verdict"] == "apart" else 0 if found["verdict"] == "within" else 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
