"""Ends a training again and again at random moments and resumes it: it must end with the same bits.

`python -m tests.suites.engine.kill_training FOLDER --kills 200` kills the process with kill -9; with `--groups` all
processes of a run that waits for its data get SIGTERM, as batch systems do it, or SIGKILL, by turns.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framework.io import load_tensors
from suites.engine.run.checkpoint import Checkpoints

ROOT = Path(__file__).parents[3]
CONFIG = """
suite: toy
data: {samples: 200}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Cosine, base_lr: 0.2, reference_batch: 8, warmup_steps: 3}
runtime: {epochs: 6, seed: 3, workers: 1, log_every: 50, checkpoint: {every: 7}, ema: {decay: 0.9},
          evaluation: {every: 1, pictures: 2}}
"""
WAITING = CONFIG.replace("{samples: 200}", "{samples: 40, seconds: 0.01}").replace("workers: 1", "workers: 2")
TRAIN = """
import sys
sys.path.insert(0, {root!r})
import tests.suites.engine.toy
from pathlib import Path
from suites.engine.train.training import train
if __name__ == "__main__":
    done = train(Path({config!r}), runs=Path({runs!r}), name={name!r}, resume={resume!r})
    sys.exit(130 if done.interrupted else 0)
"""
KEPT = ("last.safetensors", "best.safetensors")


@dataclass
class Report:
    """What happened.

    Attributes:
        kills: processes that were killed.
        saved: of those that got SIGTERM, how many saved where they were; the others did not train yet, or had ended.
        finished: runs that reached their end, with the bits of a run that nobody killed.
        resumed: starts that went on from a checkpoint.
        seconds: what all of it took.
    """

    kills: int = 0
    saved: int = 0
    finished: int = 0
    resumed: int = 0
    seconds: float = 0.0


def kill_and_resume(
    folder: Path, *, kills: int, seed: int, groups: bool = False, seconds: float | None = None
) -> Report:
    """End so many processes; raise AssertionError where something is lost, or other bits come out.

    Args:
        folder: for the runs.
        kills: how many.
        seed: of the moments.
        groups: end all processes of a run, by turns with SIGTERM and SIGKILL, while it waits for its data.
        seconds: after which no further one is ended.
    """
    rng = np.random.default_rng(seed)
    report, began = Report(), time.monotonic()
    (folder / "toy.yml").write_text(WAITING if groups else CONFIG)
    started = time.monotonic()
    assert _start(folder, "reference").wait() == 0, (folder / "reference.txt").read_text()
    whole = time.monotonic() - started
    saved = 0
    while report.kills < kills or saved or not report.finished:
        if seconds is not None and time.monotonic() - began > seconds:
            kills = report.kills
        name = f"run{report.finished}"
        process = _start(folder, name)
        report.resumed += saved > 0
        try:
            if report.kills >= kills:
                process.wait()
            else:
                process.wait(rng.uniform(0, whole))
        except subprocess.TimeoutExpired:
            report.kills += 1
            by_term = groups and report.kills % 2 == 0
            report.saved += _end(process, folder / f"{name}.txt", by_term=by_term, group=groups)
            if process.returncode == 0:  # it was at its end
                assert_same(folder / "reference", folder / name)
                report.finished, saved = report.finished + 1, 0
                continue
            saved = _saved(folder / name, saved)
            continue
        assert process.returncode == 0, (folder / f"{name}.txt").read_text()
        assert_same(folder / "reference", folder / name)
        report.finished, saved = report.finished + 1, 0
    report.seconds = time.monotonic() - began
    return report


def _start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    resume = (folder / name / "config.yml").is_file()
    values = {"root": str(ROOT), "config": str(folder / "toy.yml"), "runs": str(folder)}
    script = folder / f"{name}.py"
    script.write_text(TRAIN.format(**values, name=name, resume=resume))
    with (folder / f"{name}.txt").open("w") as said:
        return subprocess.Popen(
            [sys.executable, script], stdout=said, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True
        )


def _end(process: subprocess.Popen[bytes], said: Path, *, by_term: bool, group: bool) -> bool:
    """End a run, or all of its processes; return whether it saved where it was, which no error may keep it from."""
    number = signal.SIGTERM if by_term else signal.SIGKILL
    os.killpg(process.pid, number) if group else process.send_signal(number)
    process.wait(60)
    assert process.returncode in (0, 130, -number), f"{process.returncode}: {said.read_text()}"
    text = said.read_text()
    assert process.returncode != 130 or "saved at step" in text or "no step yet" in text, text
    assert "worker process" not in text, text
    return process.returncode == 130


def _saved(run: Path, before: int) -> int:
    """The newest step of a killed run, which is whole and not older than the one before it was killed."""
    if not (run / "weights").is_dir():
        return before
    found = Checkpoints(run / "weights").latest()
    step = 0 if found is None else int(found["trainer"]["step"])
    assert step >= before, f"step {before} was saved, now the newest is {step}"
    for name in KEPT:
        if (run / "weights" / name).is_file():
            load_tensors(run / "weights" / name)
    return step


def assert_same(reference: Path, run: Path) -> None:
    for name in KEPT:
        a, b = (load_tensors(folder / "weights" / name) for folder in (reference, run))
        assert a.keys() == b.keys()
        assert all(a[key].numpy().tobytes() == b[key].numpy().tobytes() for key in a), f"{run.name}: {name} differs"
    a, b = (Checkpoints(folder / "weights").latest() for folder in (reference, run))
    assert a is not None and b is not None and a["trainer"] == b["trainer"] and a["hooks"] == b["hooks"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", action="store_true")
    parser.add_argument("--seconds", type=float)
    a = parser.parse_args()
    print(kill_and_resume(a.folder, kills=a.kills, seed=a.seed, groups=a.groups, seconds=a.seconds))
