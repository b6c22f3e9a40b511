"""Rows beside an export: published for serving, looked up there, and changed for newer ones without a pause.

An export of a CTR model holds its dense part as a Program, and in the folder `rows` the rows of its signs. There
`rows.json` names the model and the files that are valid together, a whole snapshot and the deltas that follow it; it is
replaced when all of them are there. So a training run publishes into the folder of a model that is being served, or
files are copied there, `rows.json` last.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from framework.atomic import make_folder, write_text
from framework.errors import AttributeValueError, CheckpointError, PaddockError
from framework.table import TableSnapshot
from suites.ctr.schema import Schema
from suites.engine.hooks import Hook

if TYPE_CHECKING:
    from framework.table import Table
    from suites.engine.loop import TrainingLoop

_log = logging.getLogger(__name__)

FOLDER, LIST = "rows", "rows.json"
_MOST_DELTAS = 16  # after which a whole snapshot is written again: each makes look-ups slower
RowType = Literal["float32", "float16", "int8"]


def model_key(schema: Schema) -> str:
    """What tells the rows of one model from those of another: its features, slots and labels; not their values."""
    told = {"slots": schema.slots(), "fields": repr(schema.fields())}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def publish_rows(table: Table, schema: Schema, export: Path, dtype: RowType = "float32") -> str:
    """Write what changed of a table beside an export, or all of it where nothing can be built on; return the file.

    Args:
        table: whose rows they are.
        schema: of the model, which the export has to be of, too.
        export: folder of the export.
        dtype: of the rows, see `framework.table.snapshot`.

    Raises CheckpointError where the files cannot be written, or those there are another model's; what is served stays.
    """
    folder = export / FOLDER
    make_folder(folder)
    key = model_key(schema)
    before = _listed(folder, key) if (folder / LIST).is_file() else []
    newest = before[-1].split(".")[0] if 0 < len(before) <= _MOST_DELTAS else None
    follows = newest is not None and table.published is not None and table.published.id == newest
    part = folder / ".new"
    name = f"{table.snapshot(part, dtype, delta=follows)}.{'delta' if follows else 'base'}"
    part.replace(folder / name)
    files = [*before, name] if follows else [name]
    write_text(folder / LIST, json.dumps({"model": key, "files": files}) + "\n")
    for old in folder.iterdir():  # who has one mapped keeps it
        if old.suffix in (".base", ".delta") and old.name not in (*files, *before):
            old.unlink()
    return name


def _listed(folder: Path, key: str) -> list[str]:
    """The files that are valid together, the whole snapshot first.

    Raises CheckpointError for a list that is none, or of another model than `key` says.
    """
    path = folder / LIST
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        files, model = told["files"], told["model"]
        good = all(Path(name).name == name for name in files) and len(files) > 0
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); export the model again") from None
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise CheckpointError(f"{path}: names no files of rows; publish them again")
    if model != key:
        raise CheckpointError(
            f"{path}: holds rows of a model with other features or labels; export into a folder of its own"
        )
    return list(files)


class ServedRows:
    """Signs of a batch to rows, by what lies beside an export; all signs of a batch see one version.

    Args:
        export: folder of the export.
        schema: of the model.
        every: seconds between two looks for newer rows.

    Attributes:
        rows: the snapshot that answers.

    Raises CheckpointError where there are no rows, they are damaged, or another model's.
    """

    def __init__(self, export: Path, schema: Schema, every: float = 1.0) -> None:
        fields = schema.fields()
        self._signs = ("sparse", *(name for name, _ in (*fields.bags, *fields.sequences)))
        self._folder, self._key, self._every = export / FOLDER, model_key(schema), every
        self._files = _listed(self._folder, self._key)
        self.rows = TableSnapshot.open(self._folder / self._files[0], [self._folder / d for d in self._files[1:]])
        self._looking, self._next = threading.Lock(), time.monotonic() + every

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays with rows float32 [..., R] in place of signs int64 [...]."""
        self._look()
        signs = {name: arrays[name] for name in self._signs if name in arrays}  # not all models take all
        rows = self.rows.lookup(np.concatenate([keys.ravel() for keys in signs.values()]))
        ends = np.cumsum([keys.size for keys in signs.values()])[:-1]
        parts = zip(signs.items(), np.split(rows, ends), strict=True)
        return {**arrays, **{name: part.reshape(*keys.shape, self.rows.dim) for (name, keys), part in parts}}

    def _look(self) -> None:
        """Take newer rows up, in one thread at a time; what cannot be read is told, and the older rows stay."""
        if time.monotonic() < self._next or not self._looking.acquire(blocking=False):
            return
        try:
            self._next = time.monotonic() + self._every
            files = _listed(self._folder, self._key)
            if files == self._files:
                return
            shared = len(self._files)
            if files[:shared] == self._files:
                for delta in files[shared:]:
                    self.rows.apply(self._folder / delta)
            else:
                self.rows.swap(self._folder / files[0], [self._folder / delta for delta in files[1:]])
            self._files = files
            _log.info("rows: version %s is served", self.rows.version)
        except PaddockError as error:
            _log.warning("rows: version %s stays: %s", self.rows.version, error)
        finally:
            self._looking.release()


@dataclass(frozen=True)
class PublishSettings:
    """Rows that a run publishes while it trains.

    Args:
        to: folder of an export of this model.
        every: seconds between two publications.
        dtype: of the rows.
    """

    to: str
    every: float = 60.0
    dtype: RowType = "float32"

    def __post_init__(self) -> None:
        if not self.every > 0:
            raise AttributeValueError(f"publish: every is {self.every}; it must be above 0 seconds")


class Publish(Hook):
    """Publishes the rows that changed beside an export, and once more at the end of the run.

    A publication that fails, as on a full disk, is told and tried again; the run goes on.

    Args:
        settings: see there.
    """

    priority: ClassVar[int] = 60

    def __init__(self, settings: PublishSettings) -> None:
        self._settings = settings
        self._next = time.monotonic() + settings.every

    def before_train(self, loop: TrainingLoop) -> None:
        """Refuse a folder that holds no export before hours are spent."""
        if not (Path(self._settings.to) / "program.json").is_file():
            raise CheckpointError(f"publish: {self._settings.to} holds no exported model; run `paddock export` first")

    def after_step(self, loop: TrainingLoop) -> None:
        """Publish when it is time."""
        if time.monotonic() >= self._next:
            self._publish(loop)
            self._next = time.monotonic() + self._settings.every

    def after_train(self, loop: TrainingLoop) -> None:
        """Publish what is left."""
        self._publish(loop)

    def _publish(self, loop: TrainingLoop) -> None:
        if not loop.world.first:
            return
        try:
            task: Any = loop.task
            name = publish_rows(task.model.table, task.schema, Path(self._settings.to), self._settings.dtype)
        except CheckpointError as error:
            _log.warning("publish: %s", error)
        else:
            loop.log.say(f"step {loop.step}: rows published as {name}")
