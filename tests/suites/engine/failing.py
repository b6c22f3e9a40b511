"""Trains where the disk refuses a change of the run's folder, at each of them: one error, nothing lost, the same bits.

`python -m tests.suites.engine.failing FOLDER ERRNO COUNT FIRST STEP`, with the library of `killing.c` preloaded: from
change FIRST on, and then each STEP further, COUNT changes fail. Each training runs in a forked child.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

from suites.engine.command_line import run
from suites.engine.train.training import train
from tests.suites.engine import toy  # noqa: F401  (registers the suite)
from tests.suites.engine.kill_training import assert_same

CONFIG = """
suite: toy
data: {samples: 40}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {epochs: 2, seed: 3, workers: 0, checkpoint: {every: 4}, evaluation: {every: 1, pictures: 2}}
"""
_NEVER = 1 << 40


def refuse(folder: Path, error: int, count: int, first: int, step: int) -> tuple[int, int]:
    """Return how many changes a training makes, and how many trainings met a refusal; AssertionError for a loss."""
    (folder / "toy.yml").write_text(CONFIG)
    status, changes, said = _child(folder, "reference", _NEVER, 1, error)
    assert status == 0, said
    met = 0
    for at in range(first, changes, step):
        status, asked, said = _child(folder, "run", at, count, error)
        assert asked > at, f"{at}: only {asked} changes were asked for"
        assert "Traceback" not in said, f"{at}: {said}"
        assert status == 0 or sum(line.startswith("error: ") for line in said.splitlines()) == 1, f"{at}: {said}"
        _child_again(folder, at)
        met += 1
        shutil.rmtree(folder / "run")
    return changes, met


def _child_again(folder: Path, at: int) -> None:
    """The disk works again: the same command, or --resume where there is a run, ends with the bits of the reference."""
    resume = (folder / "run" / "config.yml").is_file()
    status, _, said = _child(folder, "run", _NEVER, 1, 0, resume=resume)
    assert status == 0, f"{at}, again: {said}"
    assert_same(folder / "reference", folder / "run")


def _child(
    folder: Path, name: str, first: int, count: int, error: int, *, resume: bool = False
) -> tuple[int, int, str]:
    """The exit status of a training in a child, the changes it asked for, and what it said."""
    said, asked = folder / "said.txt", folder / "asked.txt"
    child = os.fork()
    if not child:
        with said.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        library.fail.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_char_p)
        library.refused.restype = ctypes.c_long
        library.fail(first, count, error, str(folder / name).encode())
        status = run(lambda: _train(folder, name, resume))
        asked.write_text(str(library.refused()))
        sys.stdout.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, int(asked.read_text()), said.read_text()


def _train(folder: Path, name: str, resume: bool) -> int:
    train(folder / "toy.yml", runs=folder, name=name, resume=resume)
    return 0


if __name__ == "__main__":
    print(*refuse(Path(sys.argv[1]), *map(int, sys.argv[2:6])))
