"""Checkpoints: all that a run needs to continue bit for bit, in folders that appear whole or not at all.

    weights/step_00000400/    model.safetensors  optimizer.safetensors  ...  state.json  SHA256SUMS
    weights/last.safetensors  weights/best.safetensors      the plain weights, for evaluation and export

What a model has beside its weights, such as a table of rows, is in the folder `resources` of each checkpoint; see
`suites.engine.contract.resources`.

A checkpoint is a nested dict. Its first level gives the files: tensors below `model` go to
`model.safetensors`, everything else stays in `state.json`. `SHA256SUMS` has the digests of all files, as `sha256sum -c`
reads them. A folder is never replaced: the same step saved again is `step_00000400_2`, after which the first one goes.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework import Tensor, from_numpy
from framework.atomic import atomic_folder, move, remove_folder, remove_leftovers
from framework.errors import CheckpointError
from framework.io import load_tensors, save_tensors, sha256
from framework.outside import read_json, read_text
from framework.remedies import remedy
from suites.engine.contract.resources import FOLDER, Resource, place_resources, save_resources

_STATE = "state.json"
_SUMS = "SHA256SUMS"
_TENSOR = "$tensor"  # in the JSON: {"$tensor": name in the safetensors file}
_STEP = re.compile(r"step_(\d+)(?:_(\d+))?")
_DAMAGED = ".damaged"  # put to the name of a checkpoint that was passed over
_log = logging.getLogger(__name__)


Digests = dict[tuple[int, int, int, int], str]  # of files by device, number, size and time of change


def save(
    folder: Path,
    checkpoint: Mapping[str, Any],
    resources: Mapping[str, Resource] | None = None,
    known: Digests | None = None,
) -> None:
    """Write `checkpoint`, and the model's resources, as `folder`, whole or not at all.

    Args:
        folder: to write.
        checkpoint: nested parts.
        resources: of the model.
        known: of files that an earlier checkpoint has too; gets those of this one.

    Raises CheckpointError where the disk is full or the folder cannot be written.
    """
    try:
        with atomic_folder(folder) as part:
            state = {}
            for name, value in checkpoint.items():
                tensors: dict[str, Tensor] = {}
                state[name] = _take_tensors(value, "", tensors)
                if tensors:
                    save_tensors(part / f"{name}.safetensors", tensors)
            (part / _STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
            if resources:
                save_resources(part / FOLDER, resources)
            known = {} if known is None else known
            sums = "".join(f"{_digest(part / name, known)}  {name}\n" for name in _files(part))
            (part / _SUMS).write_text(sums, encoding="utf-8")
    except (OSError, CheckpointError) as error:
        reason = error.__cause__ or error
        what = remedy(reason) or "free some space or choose another folder"
        raise CheckpointError(
            f"{folder}: the checkpoint cannot be written ({reason}); what was saved before is untouched; {what}"
        ) from error


def load(folder: Path) -> dict[str, Any]:
    """Return the checkpoint in `folder`, and under "resources" the folder of the model's resources if it has some.

    Raises CheckpointError if a file of it is missing or damaged.
    """
    _verify(folder)
    path = folder / _STATE
    try:
        state = read_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    tensors = {file.stem: load_tensors(file) for file in folder.glob("*.safetensors")}
    try:
        found = {name: _put_tensors(value, tensors.get(name, {})) for name, value in state.items()}
    except KeyError as error:
        raise CheckpointError(f"{folder}: tensor {error} is missing; one of its files was replaced") from error
    return found | ({FOLDER: folder / FOLDER} if (folder / FOLDER).is_dir() else {})


def _files(folder: Path) -> list[str]:
    """The files in a folder and below, as relative paths, sorted."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _digest(path: Path, known: Digests) -> str:
    """SHA-256 of a file, which is not read again where an earlier checkpoint shares it."""
    told = path.stat()
    key = (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)
    if key not in known:
        known[key] = sha256(path)
    return known[key]


def _verify(folder: Path) -> None:
    """Raise CheckpointError for a file that is not as it was written."""
    try:
        lines = read_text(folder / _SUMS).splitlines()
        sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{folder / _SUMS}: cannot be read ({error}), so nothing says that it is whole"
        ) from error
    for name in sorted({_STATE, *sums, *_files(folder)} - {_SUMS}):
        try:
            found = sha256(folder / name)
        except OSError as error:
            raise CheckpointError(f"{folder / name}: cannot be read ({error.strerror})") from error
        if found != sums.get(name):
            raise CheckpointError(f"{folder / name}: damaged, its SHA-256 is not the one in {_SUMS}")


class Checkpoints:
    """The checkpoints of one run; the newest `keep` stay."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self._folder = folder
        self._keep = max(keep, 1)
        self._digests: Digests = {}

    def save(self, step: int, checkpoint: Mapping[str, Any], resources: Mapping[str, Resource] | None = None) -> Path:
        """Write the checkpoint of `step`, then remove those older than the newest `keep`; return its folder."""
        before = self._folders()
        path = self._folder / _name(step, max((copy for at, copy in before if at == step), default=0) + 1)
        save(path, checkpoint, resources, self._digests)
        place_resources(path / FOLDER, resources or {})
        kept = sorted({step, *(at for at, _ in before)})[-self._keep :]
        for (at, _), old in before.items():
            if at == step or at not in kept:
                remove_folder(old)
        return path

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, ascending."""
        return sorted({step for step, _ in self._folders()})

    def folder(self, step: int) -> Path:
        """Return the folder of a step's checkpoint; KeyError where there is none."""
        return {at: path for (at, _), path in sorted(self._folders().items())}[step]

    def exist(self) -> bool:
        """Return whether there is any checkpoint, whole or not."""
        return bool(self._folders())

    def latest(self) -> dict[str, Any] | None:
        """Return the newest whole checkpoint, or None where there is none; see `newest`."""
        found = self.newest()
        return None if found is None else found[1]

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """Return folder and content of the newest whole checkpoint, or None; tidy up what a killed run left.

        A damaged one is passed over, which is logged, and gets a name that says so. Raises CheckpointError if there
        are checkpoints and none is whole.
        """
        remove_leftovers(self._folder)
        folders = [folder for _, folder in sorted(self._folders().items(), reverse=True)]
        damaged: list[CheckpointError] = []
        for folder in folders:
            try:
                found = load(folder)
            except CheckpointError as error:
                damaged.append(error)
                continue
            for passed, why in zip(folders, damaged, strict=False):
                kept = _free(passed.with_name(passed.name + _DAMAGED))
                move(passed, kept)
                _log.warning("%s; it is kept as %s, and %s is taken instead", why, kept.name, folder.name)
            return folder, found
        if damaged:
            raise damaged[0]
        return None

    def _folders(self) -> dict[tuple[int, int], Path]:
        """The folders by step and by how often that step was saved."""
        names = ((path, _STEP.fullmatch(path.name)) for path in self._folder.glob("step_*"))
        return {(int(match[1]), int(match[2] or 1)): path for path, match in names if match}


def _free(path: Path) -> Path:
    """The path, with a number behind it where something lies there."""
    names = itertools.chain([path], (path.with_name(f"{path.name}_{n}") for n in itertools.count(2)))
    return next(one for one in names if not os.path.lexists(one))


def _name(step: int, copy: int) -> str:
    return f"step_{step:08d}" + (f"_{copy}" if copy > 1 else "")


def _take_tensors(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Move the tensors inside `value` to `tensors`, named by their place; return the rest, fit for JSON."""
    prefix = f"{name}/" if name else ""
    if isinstance(value, Mapping):
        return {str(key): _take_tensors(item, f"{prefix}{key}", tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_take_tensors(item, f"{prefix}{index}", tensors) for index, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    tensors[name] = value if isinstance(value, Tensor) else from_numpy(np.asarray(value))
    return {_TENSOR: name}


def _put_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _put_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_tensors(item, tensors) for item in value]
    return value
