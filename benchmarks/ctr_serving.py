#!/usr/bin/env python3
"""Claim: under load no request is lost while rows are swapped, and a delta is in the answers within 2 seconds.

    python benchmarks/ctr_serving.py [--seconds 60] [--items 100] [--askers 2]

A DeepFM (26 sparse and 13 dense features, vectors of 16, layers of 400, 400, 400) is trained on a drawn log, exported
and served by `paddock serve` in a process of its own. `--askers` connections send requests of `--items` rows one after
the other over HTTP and JSON, while rows are changed and published about once a second. A delta's age is the time from
the call of `publish` to the first answer with its version or a later one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from cluster_training import DENSE, SPARSE, options, write_log
from common import ROOT, environment

ROWS, BATCH = 200_000, 4096
MOST_SECONDS = 2.0
CHANGED = 10_000  # rows between two publications


class Asker(threading.Thread):
    """Asks without a pause; no request is sent twice.

    Attributes:
        answers: time of each answer, seconds it took, its versions.
        failed: what requests without an answer gave instead.
    """

    def __init__(self, url: str, items: list[dict[str, str]], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        from suites.engine.serving.client import Client

        self._client, self._items, self._stop_now = Client(url, timeout=30.0, retries=0), items, stop
        self.answers: list[tuple[float, float, set[str]]] = []
        self.failed: list[str] = []

    def run(self) -> None:
        """See the class."""
        from suites.engine.serving.client import ServerError

        while not self._stop_now.is_set():
            begin = time.perf_counter()
            try:
                found = self._client.request("POST", "/v1/scores", {"input": self._items})
            except ServerError as error:
                self.failed.append(str(error))
                continue
            end = time.perf_counter()
            self.answers.append((end, end - begin, {row["version"] for row in found["data"]}))


def exported(folder: Path) -> tuple[Any, Any, Path, np.ndarray]:
    """Train and export a model; its table, its schema, the folder, and the log's signs."""
    from suites.ctr.task.ground import ClickTask
    from suites.engine.predict.inference import export_run, open_run
    from suites.engine.train.training import train

    write_log(folder, ROWS)
    train(Path("ctr/deepfm_csv"), options(folder, BATCH, 40), runs=folder / "runs", name="run")
    export_run(folder / "runs" / "run", folder / "exported")
    task = open_run(folder / "runs" / "run")
    assert isinstance(task, ClickTask)
    with task.train_loader(seed=0, workers=0) as loader:
        signs = np.unique(np.concatenate([batch["sparse"].ravel() for batch in loader]))
    return task.table, task.schema, folder / "exported", signs


def rows_to_ask(folder: Path, count: int) -> list[dict[str, str]]:
    """The log's first rows as objects."""
    names = [*(f"d{i}" for i in range(DENSE)), *(f"s{i}" for i in range(SPARSE))]
    with (folder / "log.tsv").open() as log:
        return [dict(zip(names, next(log).rstrip("\n").split("\t")[1:], strict=True)) for _ in range(count)]


def publish_on(
    table: Any, schema: Any, export: Path, keys: np.ndarray, seconds: float
) -> dict[str, tuple[float, float]]:
    """Change rows and publish them every second; when each version was begun and done."""
    from suites.ctr.serving import publish

    rng = np.random.default_rng(0)
    made, end = {}, time.perf_counter() + seconds
    while time.perf_counter() < end:
        some = rng.choice(keys, min(CHANGED, len(keys)), replace=False)
        table.update(some, rng.normal(size=(len(some), table.dim)).astype(np.float32), lr=1e-4)
        begin = time.perf_counter()
        version = publish(table, schema, export).split(".")[0]
        made[version] = (begin, time.perf_counter())
        time.sleep(max(0.0, begin + rng.uniform(0.7, 1.7) - time.perf_counter()))  # out of step with the server's looks
    return made


def ages_of(made: dict[str, tuple[float, float]], answers: list[tuple[float, float, set[str]]]) -> list[float]:
    """Seconds of each version that was answered with, or whose successor was; both arguments are in order of time."""
    order = {version: number for number, version in enumerate(made)}
    begun = [begin for begin, _ in made.values()]
    found: list[float] = []
    for at, _, versions in answers:
        newest = max((order.get(version, -1) for version in versions), default=-1)
        found += [at - begin for begin in begun[len(found) : newest + 1]]
    return found


def figures(askers: list[Asker], made: dict[str, tuple[float, float]], items: int, seconds: float) -> dict[str, Any]:
    """What came of it."""
    answers = sorted(
        ((at, took, versions) for asker in askers for at, took, versions in asker.answers), key=lambda a: a[0]
    )
    ages = ages_of(made, answers)
    took = np.array([took for _, took, _ in answers]) * 1e3
    return {
        "requests": len(answers),
        "failed": [error for asker in askers for error in asker.failed],
        "mixed": sum(len(versions) > 1 for _, _, versions in answers),
        "requests_per_s": len(answers) / seconds,
        "rows_per_s": len(answers) * items / seconds,
        "lookups_per_s": len(answers) * items * SPARSE / seconds,
        "ms": {name: float(np.percentile(took, p)) for name, p in (("p50", 50), ("p99", 99), ("most", 100))},
        "published": len(made),
        "publishing_s": float(np.median([done - begin for begin, done in made.values()])),
        "visible": len(ages),
        "age_s": {"median": float(np.median(ages)), "most": max(ages)},
    }


def measured(folder: Path, a: argparse.Namespace) -> dict[str, Any]:
    """Serve, ask and publish."""
    table, schema, export, keys = exported(folder)
    items = rows_to_ask(folder, a.items)
    command = [sys.executable, "tools/serve.py", str(export), "--port", "0", "--threads", str(a.threads)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[3]
        stop = threading.Event()
        askers = [Asker(url, items, stop) for _ in range(a.askers)]
        for asker in askers:
            asker.start()
        while not all(asker.answers for asker in askers):
            time.sleep(0.1)
        begin = time.perf_counter()
        made = publish_on(table, schema, export, keys, a.seconds)
        time.sleep(MOST_SECONDS)
        seconds = time.perf_counter() - begin
        stop.set()
        for asker in askers:
            asker.join()
            asker.answers = [answer for answer in asker.answers if answer[0] >= begin]
        return figures(askers, made, a.items, seconds)
    finally:
        server.terminate()
        server.wait(30)


def main() -> int:
    """Measure, print, and return 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--items", type=int, default=100, help="rows of a request")
    parser.add_argument("--askers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as name:
        found = measured(Path(name), a)
    good = not found["failed"] and found["visible"] == found["published"] and found["age_s"]["most"] <= MOST_SECONDS
    told = {**found, "good": good, "environment": environment()}
    print(json.dumps(told, indent=1))
    if a.json:
        a.json.write_text(json.dumps(told) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
