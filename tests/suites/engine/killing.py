"""Kills a process at every call of one action that changes files: `python killing.py ACTION FOLDER`, library preloaded.

The action runs in a forked child, once for each call and each half-done write, from the same state on disk; after each
death the folder is checked. Prints how many deaths there were, or ends with the check's error.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from framework import from_numpy, program
from framework.graph import Program
from framework.graph.files import load_program, save_program, tensors_of
from framework.io import load_metadata, load_tensors, save_tensors
from framework.table import SGD, Table, Zeros
from framework.table.chained import Chained
from framework.table.remote.log import Durability, UpdateLog, numbers, read
from suites.engine.config import Config, load_config
from suites.engine.contract.resources import _KEY, load_resources, save_deployed
from suites.engine.reporting.lines import append, withdraw
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.folder import RunFolder

SIZE = 3000


def _state(number: int) -> dict[str, object]:
    weights = {"w": from_numpy(np.full(SIZE, number, np.float32)), "b": from_numpy(np.full(3, number, np.int64))}
    return {"model": weights, "optimizer": dict(weights), "trainer": {"number": number}}


def _check_latest(folder: Path, allowed: set[int]) -> None:
    found = Checkpoints(folder).latest()
    assert found is not None, "both copies are lost"
    number = found["trainer"]["number"]
    assert number in allowed, number
    assert all((found[part]["w"].numpy() == number).all() for part in ("model", "optimizer"))
    assert all(path.name.startswith("step_") for path in folder.iterdir()), "leftovers"


def _save(folder: Path, step: int, number: int) -> None:
    Checkpoints(folder, keep=1).save(step, _state(number))


@cache
def _program(number: int) -> Program:
    weight = from_numpy(np.full(SIZE, number, np.float32))
    return program(lambda x: x * weight).program_for(from_numpy(np.zeros(SIZE, np.float32))).program


def _save_program(folder: Path, number: int) -> None:
    _program(2)  # traced before this process forks
    save_program(_program(number), folder, extra={"number": number})


def _check_program(folder: Path) -> None:
    found, extra = load_program(folder)
    assert extra["number"] in (1, 2)
    assert all((t.numpy() == extra["number"]).all() for t in tensors_of(found).values()), "a mixed pair"


def _save_weights(folder: Path, number: int) -> None:
    save_tensors(folder / "last.safetensors", {"w": from_numpy(np.full(SIZE, number, np.float32))})


def _check_weights(folder: Path) -> None:
    values = load_tensors(folder / "last.safetensors")["w"].numpy()
    assert (values == values[0]).all() and values[0] in (1, 2)


def _save_rows(folder: Path, number: int) -> None:
    """A checkpoint whose table follows the one before, as a resumed run saves it."""
    rows = Chained(Table(2, rule=SGD(), init=Zeros(), name="signs"))
    before = Checkpoints(folder).latest() if number > 1 else None
    if before is not None:
        load_resources(before["resources"], {"signs": rows}, "checkpoint")
    keys = np.arange(number * 10)
    rows._table.update(keys, np.full((len(keys), 2), -1, np.float32), lr=1.0)
    save_deployed(folder / "last.safetensors", _state(number)["model"], {"signs": rows})
    Checkpoints(folder, keep=1).save(number, _state(number), {"signs": rows})


def _save_rows_twice(folder: Path) -> None:
    _save_rows(folder, 1)
    _save_rows(folder, 2)


def _check_rows(folder: Path) -> None:
    found = Checkpoints(folder).latest()
    assert found is not None, "both copies are lost"
    number = found["trainer"]["number"]
    assert number in (2, 3), number
    for k, place in ((number, found["resources"]), (None, folder / load_metadata(folder / "last.safetensors")[_KEY])):
        table = Table.open(place / "signs")
        values = table.lookup(np.arange(40)).numpy()[:, 0]
        expected = [[sum(10 * made > key for made in range(1, n + 1)) for key in range(40)] for n in (2, 3)]
        assert values.tolist() in expected, "a mixture"
        assert k is None or values.tolist() == expected[k - 2], "rows of another step"


def _config(number: int) -> Config:
    return Config.from_dict({"suite": "detection", "model": {"size": number}})


def _create(folder: Path, number: int) -> None:
    RunFolder.create(folder / "run", _config(number), overwrite=True).close()


def _check_run(folder: Path) -> None:
    """A start that was killed can be made again; of a run that it was to replace, all or the config is there."""
    _create(folder, 3)
    assert load_config(folder / "run" / "config.yml", check=False).get("model.size") == 3


def _check_run_unasked(folder: Path) -> None:
    """Where no config stands yet, the same command as before starts the run."""
    if (folder / "run" / "config.yml").is_file():
        return _check_run(folder)
    RunFolder.create(folder / "run", _config(3)).close()
    assert load_config(folder / "run" / "config.yml", check=False).get("model.size") == 3
    return None


def _write_metrics(folder: Path, number: int) -> None:
    run = RunFolder(folder)
    run.write_metrics({f"figure_{k}": float(number) for k in range(SIZE)})
    run.write_plots([])


def _check_metrics(folder: Path) -> None:
    figures = json.loads(RunFolder(folder).metrics.read_text())
    assert len(figures) == SIZE and set(figures.values()) in ({1.0}, {2.0})
    json.loads((folder / "plots.json").read_text())


def _journal(folder: Path, step: int) -> None:
    append(folder / "metrics.jsonl", {"step": step, "figures": {f"figure_{k}": step for k in range(SIZE)}})


def _check_journal(folder: Path) -> None:
    """The line that was being written may be there in part; a start takes it back."""
    withdraw(folder / "metrics.jsonl", 9)
    _journal(folder, 3)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] in ([1, 3], [1, 2, 3])
    assert all(len(line["figures"]) == SIZE for line in lines)


def _log(folder: Path, first: int, count: int) -> None:
    """Logs as a shard does, and begins another file on the way."""
    written = UpdateLog(folder, bytes(16), max(numbers(folder), default=0) + 1, Durability("always"))
    for k in range(first, first + count):
        written.append([np.full(SIZE, k, np.int64), np.full(3, k, np.int64)])
        written.commit()
        (folder / f"acknowledged_{k}").touch()
    written.rotate()
    written.close()


def _check_log(folder: Path) -> None:
    found = [np.frombuffer(record, np.int64) for record in read(folder, bytes(16), 1)]
    assert all(len(record) == SIZE + 3 and (record == k).all() for k, record in enumerate(found)), "a torn record"
    acknowledged = len(list(folder.glob("acknowledged_*")))
    assert acknowledged <= len(found) <= acknowledged + 1


Action = tuple[Callable[[Path], None], Callable[[Path], None], Callable[[Path], None]]
ACTIONS: dict[str, Action] = {  # what stands before, what is killed, what must hold after
    "next": (lambda f: _save(f, 1, 1), lambda f: _save(f, 2, 2), lambda f: _check_latest(f, {1, 2})),
    "again": (lambda f: _save(f, 1, 1), lambda f: _save(f, 1, 2), lambda f: _check_latest(f, {1, 2})),
    "program": (lambda f: _save_program(f, 1), lambda f: _save_program(f, 2), _check_program),
    "rows": (
        lambda f: _save_rows_twice(f),
        lambda f: _save_rows(f, 3),
        _check_rows,
    ),
    "weights": (lambda f: _save_weights(f, 1), lambda f: _save_weights(f, 2), _check_weights),
    "run": (lambda f: f.mkdir(), lambda f: _create(f, 1), _check_run_unasked),
    "overwrite": (lambda f: _create(f, 1), lambda f: _create(f, 2), _check_run),
    "metrics": (lambda f: _write_metrics(f, 1), lambda f: _write_metrics(f, 2), _check_metrics),
    "journal": (lambda f: (f.mkdir(), _journal(f, 1)), lambda f: _journal(f, 2), _check_journal),
    "log": (lambda f: (f.mkdir(), _log(f, 0, 2)), lambda f: _log(f, 2, 2), _check_log),
}


def run(name: str, folder: Path) -> tuple[int, int]:
    """Return how many deaths there were, and after how many of them the new state was there already."""
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.arm.argtypes = (ctypes.c_long, ctypes.c_int)
    before, action, check = ACTIONS[name]
    before(folder / "before")
    deaths = 0
    for middle in (0, 1):
        call = 0
        while True:
            place = folder / f"{middle}_{call}"
            shutil.copytree(folder / "before", place)
            died = _killed(lambda: library.arm(call, middle), action, place)  # noqa: B023  (called at once)
            check(place)
            shutil.rmtree(place)
            if not died:
                break
            call, deaths = call + 1, deaths + 1
    return deaths, call


def _killed(arm: Callable[[], None], action: Callable[[Path], None], place: Path) -> bool:
    child = os.fork()
    if not child:
        arm()
        action(place)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0, f"the action failed with status {status}"
    return False


if __name__ == "__main__":
    total, calls = run(sys.argv[1], Path(sys.argv[2]))
    print(total, calls)
