"""A shard's folder: which checkpoint counts, and where its log begins.

shard.json             names what counts; replaced when all of it is there
table-00000001/        a base, and the deltas that follow it, as any table has them
state-00000002.safetensors   which pushes are in which bucket, and the dense numbers
log-00000002           see framework.table.remote.log
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from framework.atomic import make_folder, remove_file, remove_folder, remove_leftovers, write_text
from framework.confined import confine, open_inside
from framework.errors import CheckpointError, StateError
from framework.io import load_tensors, save_tensors
from framework.outside import read_json
from framework.system.file_locks import lock_file
from framework.table import files
from framework.table.remote.keys import BUCKETS
from framework.table.remote.log import numbers
from framework.table.table import Table
from framework.tensors import from_numpy

FORMAT = 1
MANIFEST = "shard.json"
DELTAS = 8  # after which everything is written again
NOTHING_SEEN = np.zeros(BUCKETS, np.int64)
NOTHING_SEEN.flags.writeable = False


@dataclass(frozen=True)
class About:
    """Whose files they are."""

    model: bytes
    share: tuple[int, int]
    dense: int
    table: dict[str, Any]


@dataclass
class Found:
    """What a checkpoint holds beside rows."""

    seen: dict[int, np.ndarray]
    incarnations: dict[int, int]
    floor: int
    dense: np.ndarray | None
    log: int


@dataclass
class Taken:
    """What is noted while the buckets of a checkpoint are read, range by range."""

    share: tuple[int, int]
    bounds: np.ndarray
    seen: dict[int, np.ndarray] = field(default_factory=dict)
    dense: list[np.ndarray] = field(default_factory=list)

    def note(self, first: int, last: int, seen: Mapping[int, np.ndarray], dense: np.ndarray | None) -> None:
        """Note the state of buckets [first, last)."""
        for worker, pushes in seen.items():
            self.seen.setdefault(worker, NOTHING_SEEN.copy())[first:last] = pushes[first:last]
        if dense is not None:
            begin, end = (min(max(b, self.share[0]), self.share[1]) for b in (first, last))
            start = self.bounds[self.share[0]]
            self.dense.append(dense[self.bounds[begin] - start : self.bounds[end] - start].copy())

    def state(self, incarnations: Mapping[int, int], floor: int) -> dict[str, np.ndarray]:
        """The arrays to be saved."""
        workers = sorted({*self.seen, *incarnations})
        workers = [w for w in workers if w >= floor]
        arrays = {
            "workers": np.array(workers, np.int64),
            "incarnations": np.array([incarnations.get(w, 0) for w in workers], np.int64),
            "seen": np.array([self.seen.get(w, NOTHING_SEEN) for w in workers], np.int64).reshape(-1, BUCKETS),
            "floor": np.array(floor, np.int64),
        }
        return {**arrays, **({"dense": np.concatenate(self.dense)} if self.dense else {})}


def own(folder: Path, writable: bool) -> TextIO:
    """A lock on the folder that ends with the process, or when what is returned is closed.

    Raises StateError where another process has it, or the file system cannot lock.
    """
    if not writable and not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such folder of a shard")
    confine(folder)
    make_folder(folder)
    file = os.fdopen(open_inside(folder / ".lock", os.O_RDWR | os.O_CREAT), "r+")
    try:
        lock_file(file.fileno(), shared=not writable)
    except OSError as error:
        file.close()
        raise StateError(
            f"{folder}: another process has this shard ({error.strerror}); it may be about to end, so try again"
        ) from None
    if writable:
        remove_leftovers(folder)
    return file


def save_table(folder: Path, table: Table, around: files.Around, *, base: bool) -> str:
    """Write rows, as a delta where one may follow; returns the folder's name."""
    chain = _manifest(folder)["tables"] if (folder / MANIFEST).is_file() else []
    name = f"table-{_next(folder):08d}"
    if base or table.chain is None or not 1 <= len(chain) <= DELTAS:
        files.save(table, folder / name, around=around)
    else:
        files.save_delta(table, folder / name, around=around)
    return name


def switch(folder: Path, about: About, name: str, state: Mapping[str, np.ndarray], log: int) -> None:
    """Make a checkpoint count whose rows are in `name`, and remove those that no longer do."""
    kind = files.read_manifest(folder / name)["kind"]
    before = _manifest(folder)["tables"] if kind == "delta" else []
    beside = f"state-{name.removeprefix('table-')}.safetensors"
    save_tensors(folder / beside, {key: from_numpy(value) for key, value in state.items()})
    told: dict[str, Any] = {
        "format": FORMAT,
        "model": about.model.hex(),
        "share": list(about.share),
        "dense": about.dense,
        "table": about.table,
        "tables": [*before, name],
        "state": beside,
        "log": log,
    }
    write_text(folder / MANIFEST, json.dumps(told, indent=1) + "\n")
    for old in folder.glob("table-*"):
        if old.name not in told["tables"]:
            remove_folder(old)
    for old in folder.glob("state-*.safetensors"):
        if old.name != beside:
            remove_file(old)


def load(folder: Path, about: About, table: Table) -> Found | None:
    """Read the checkpoint that counts into an empty table; None where there is none yet.

    Raises CheckpointError where it is damaged, or of another model or share.
    """
    if not (folder / MANIFEST).is_file():
        return None
    told = _manifest(folder)
    if told["model"] != about.model.hex():
        raise CheckpointError(f"{folder}: holds a shard of another model; name another folder for this run")
    if tuple(told["share"]) != about.share:
        raise CheckpointError(
            f"{folder}: holds buckets {told['share'][0]} to {told['share'][1] - 1}, not {about.share[0]} to "
            f"{about.share[1] - 1}; deal the buckets out anew"
        )
    base, *deltas = [folder / name for name in told["tables"]]
    table.load(base, deltas)
    t = {name: x.numpy() for name, x in load_tensors(folder / told["state"]).items()}
    workers = [int(w) for w in t["workers"]]
    return Found(
        {w: row.copy() for w, row in zip(workers, t["seen"], strict=True)},
        dict(zip(workers, map(int, t["incarnations"]), strict=True)),
        int(t["floor"]),
        t["dense"].copy() if "dense" in t else None,
        int(told["log"]),
    )


def share_of(folder: Path) -> tuple[int, int]:
    """The buckets that a shard's folder holds; CheckpointError where it has no checkpoint."""
    first, last = _manifest(folder)["share"]
    return int(first), int(last)


def age(folder: Path) -> float:
    """Seconds since the last checkpoint; 0 where there is none."""
    path = folder / MANIFEST
    return max(0.0, time.time() - path.stat().st_mtime) if path.is_file() else 0.0


def next_log(folder: Path, since: int) -> int:
    """The number of the log file to begin after recovery."""
    return max([since - 1, *numbers(folder)]) + 1


def _next(folder: Path) -> int:
    taken = [int(path.name[6:]) for path in folder.glob("table-*") if path.name[6:].isdigit()]
    return max(taken, default=0) + 1


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        told = read_json(path)
        if told["format"] != FORMAT or not all(Path(n).name == n for n in [*told["tables"], told["state"]]):
            raise ValueError("another format")
        if not (told["tables"] and len(told["share"]) == 2 and isinstance(told["log"], int)):
            raise ValueError("a field has another type")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: cannot be read as a shard's ({error})") from None
    found: dict[str, Any] = told
    return found
