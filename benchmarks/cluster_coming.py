#!/usr/bin/env python3
"""Claim: a cluster trains on folders that keep coming at 0.6 of its rate on a finished log, at least.

    python benchmarks/cluster_coming.py [CASE ...] [--rows 200000]

The model and the log are those of `cluster_training.py`, at a batch of 4,096: 2 shards and 2 trainers as processes.
`coming_R`: the log lies in folders of R rows, complete when the run begins (a run that has fallen behind), each a pass.
The difference is what passes cost: at the end of each, trainers wait for the last share and shards for the head. The
last batch of a share is short there; rates are those of rows.
`published`: a finished log, with a publication of rows and network every 2 seconds, against one without.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
from pathlib import Path

from cluster_training import cluster, write_log
from common import OURS, ROOT, Claim, Competitor, add_rows, run_claims

BATCH = 4096
CLAIMS = [Claim("coming_50000", 0.4, 0.6), Claim("coming_200000", 0.6, 0.8), Claim("published", 0.7, 0.9)]
PEER = "finished log"
_ENOUGH = 400  # folders; they are links to the same ones


def write_folders(folder: Path, rows: int) -> list[str]:
    """The log in folders of so many rows, again and again; returns the overrides that read them."""
    lines = (folder / "log.tsv").read_text().splitlines(keepends=True)
    parts = [lines[at : at + rows] for at in range(0, len(lines), rows)]
    for number, part in enumerate(parts):
        held = folder / "parts" / str(number)
        held.mkdir(parents=True)
        (held / "rows.tsv").write_text("".join(part))
        (held / "_SUCCESS").touch()
    for number in range(_ENOUGH):
        link = folder / "passes" / "20261122" / f"{number:04d}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder / "parts" / str(number % len(parts)))
    dataset = f"{{type: LogPasses, root: {folder / 'passes'}, files: rows.tsv, threads: 1}}"
    return [f"data.train.dataset={dataset}"]


def fullness(words: list[str], folder: Path) -> float:
    """Rows of a mean batch of the shares of the first folders, as a part of a full one."""
    from cluster_training import options

    from framework.data.world import World
    from suites.ctr.task.ground import ClickTask
    from suites.engine.config.building import build_task, read_config

    config = read_config(Path("ctr/deepfm_csv"), [*options(folder, BATCH, 1), *words])
    shares, sizes = config.build("cluster").parts, []
    task = build_task(config)
    assert isinstance(task, ClickTask)
    folders = task.train_loader(seed=0, workers=0)
    for number in range(len(list((folder / "parts").iterdir()))):
        folders.look()
        for share in range(shares):
            with folders.open(folders.name, number, drop_last=False) as reader:
                reader.split(World(share, shares))
                sizes += [len(batch["labels"]) for batch in reader]
    return sum(sizes) / len(sizes) / BATCH


def exported(folder: Path) -> list[str]:
    """An export of the model, and the overrides that publish into it."""
    from cluster_training import options

    from suites.engine.predict.inference import export_run
    from suites.engine.train.training import train

    train(Path("ctr/deepfm_csv"), options(folder, BATCH, 2), runs=folder / "runs", name="first")
    export_run(folder / "runs" / "first", folder / "exported")
    return [f"publish={{to: {folder / 'exported'}, every: 2.0}}"]


def run(a: argparse.Namespace) -> None:
    """Time one side and print the JSON line that `common.measure` reads."""
    case = a.cases[0]
    sys.path.insert(0, str(ROOT))
    folder = Path(tempfile.mkdtemp())
    try:
        write_log(folder, a.rows)
        more: list[str] = []
        full = 1.0
        if case == "published":
            words = exported(folder)  # on both sides, which so do the same before
            more = words if a.side == OURS else []
        elif a.side == OURS:
            more = write_folders(folder, int(case.rpartition("_")[2]))
            full = fullness(more, folder)
        rate, of_cpu = cluster(folder, BATCH, a.seconds, "processes", more)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024
    told = {"rate": round(rate * full), "unit": "samples/s", "peak_rss_mb": memory, "step_ms": 0}
    print(json.dumps(told | {"of_cpu": round(of_cpu * full)}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """The same cluster, on folders and on a finished log."""
    given = ["--seconds", str(a.seconds), "--rows", str(a.rows), case]
    return [Competitor(side, [sys.executable, __file__, "--side", side, *given]) for side in (OURS, PEER)]


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    from cluster_training import of_cpu, told

    return run_claims(
        "cluster_coming",
        __doc__,
        CLAIMS,
        competitors,
        run,
        words,
        options=add_rows(200_000),
        figures=lambda found: of_cpu({OURS: found[OURS], "one process": found[PEER]}),
        told=lambda result: told(result).replace("one process", PEER),
    )


if __name__ == "__main__":
    main()
