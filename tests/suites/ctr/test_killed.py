"""A run killed in and between its saves goes on through a base and several deltas to the bits of one nobody killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

import framework
from suites.ctr.demo.drift import DriftingLog
from suites.engine.predict.inference import open_run
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.training import train

ROOT = Path(__file__).parents[3]
EVERY, STEPS = 3, 90
TRAIN = """
import itertools, os, signal, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from framework.table import Table
from suites.ctr.train.step import CtrStep
from suites.engine.train.training import train

owner, name, last = {deadly!r}
owner = {{"Table": Table, "CtrStep": CtrStep}}[owner]
call, count = getattr(owner, name), itertools.count(1)

def deadly(*arguments, **options):
    if next(count) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*arguments, **options)

setattr(owner, name, deadly)
train(Path({path!r}), runs=Path({runs!r}), name={name!r}, resume={resume!r})
"""


def write_config(folder: Path) -> Path:
    """Rows of many signs, few of them in each step, so that deltas stay small beside their base."""
    law = DriftingLog(fields=4, living=2000, drift=0.5)
    law.write(folder / "log.tsv", 3000)
    log = {"type": "LogStream", "root": str(folder), "files": ["log.tsv"]}
    config = {
        "suite": "ctr",
        "model": {"type": "FM", "dim": 3},
        "data": {
            "schema": law.schema(),
            "train": {"dataset": {**log, "block_bytes": 5000, "shuffle_rows": 200}, "batch_size": 16},
            "eval": {"dataset": log},
        },
        "optimizer": {"type": "Adam"},
        "schedule": {"type": "Constant", "base_lr": 0.01},
        "runtime": {
            "steps": STEPS,
            "workers": 0,
            "checkpoint": {"every": EVERY},
            "evaluation": {"every": 1000, "pictures": 0},
        },
    }
    (folder / "config.yml").write_text(json.dumps(config))
    return folder / "config.yml"


def killed(folder: Path, deadly: tuple[str, str, int]) -> tuple[int, int]:
    """Train until the process kills itself; the step of the newest save, and how many deltas follow its base."""
    run = folder / "cut"
    resume = run.is_dir()
    path = run if resume else folder / "config.yml"
    values = {"root": str(ROOT), "path": str(path), "runs": str(folder), "name": "cut", "resume": resume}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN.format(deadly=deadly, **values)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    saved = Checkpoints(run / "weights").latest()
    assert saved is not None
    step = int(saved["trainer"]["step"])
    chain = run / "weights" / f"step_{step:08d}" / "resources" / "signs" / "chain.json"
    return step, len(json.loads(chain.read_text())["ids"]) - 1


def contents(run: Path) -> dict[str, np.ndarray]:
    """Weights and rows of a run's last save: rows by key, with the rule's state and the counters."""
    opened = open_run(run, run / "weights" / "last.safetensors")
    native = opened.model.table._native
    keys, *parts = (framework.Tensor(t).numpy() for t in native.read_rows(0, native.buckets, 0, False))
    order = np.argsort(keys)
    rows = {f"rows {i}": part[order] for i, part in enumerate([keys, *parts])}
    return rows | {name: t.numpy() for name, t in opened.model.state_dict().items()}


def test_a_run_that_is_killed_again_and_again_goes_on_through_base_and_deltas(tmp_path):
    path = write_config(tmp_path)
    train(path, runs=tmp_path, name="whole")
    step, deltas = 0, []
    # In the middle of a save; between two; in a save whose chain a killed process began.
    for deadly in (("Table", "save_delta", 15), ("CtrStep", "__call__", 20), ("Table", "save_delta", 3)):
        before, (step, count) = step, killed(tmp_path, deadly)
        assert step > before
        deltas.append(count)
    assert max(deltas) >= 3 and min(deltas) >= 1, deltas
    train(tmp_path / "cut", resume=True)
    whole, parts = contents(tmp_path / "whole"), contents(tmp_path / "cut")
    assert whole.keys() == parts.keys() and len(whole["rows 0"]) > 2000
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, err_msg=name)
