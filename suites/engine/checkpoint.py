"""Checkpoints: all that a run needs to continue bit for bit, in folders that appear whole or not at all.

    weights/step_00000400/    model.safetensors  optimizer.safetensors  ...  state.json
    weights/last.safetensors  weights/best.safetensors      the plain weights, for evaluation and export

A checkpoint is a nested dict. Its first level gives the files: tensors below `model` go to
`model.safetensors`, everything else stays in `state.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework import Tensor, from_numpy
from framework.atomic import atomic_folder, remove_folder, remove_leftovers
from framework.errors import CheckpointError
from framework.io import load_tensors, save_tensors

_STATE = "state.json"
_TENSOR = "$tensor"  # in the JSON: {"$tensor": name in the safetensors file}
_STEP = re.compile(r"step_(\d+)")


def save(folder: Path, checkpoint: Mapping[str, Any]) -> None:
    """Write `checkpoint` as `folder`, whole or not at all.

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
    except (OSError, CheckpointError) as error:
        reason = error.__cause__ or error
        raise CheckpointError(
            f"{folder}: the checkpoint cannot be written ({reason}); what was saved before is untouched; "
            "free some space or choose another folder"
        ) from error


def load(folder: Path) -> dict[str, Any]:
    """Return the checkpoint in `folder`; raise CheckpointError if a file of it is missing or damaged."""
    path = folder / _STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    tensors = {file.stem: load_tensors(file) for file in folder.glob("*.safetensors")}
    try:
        return {name: _put_tensors(value, tensors.get(name, {})) for name, value in state.items()}
    except KeyError as error:
        raise CheckpointError(f"{folder}: tensor {error} is missing; one of its files was replaced") from error


class Checkpoints:
    """The checkpoints of one run; the newest `keep` stay."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self._folder = folder
        self._keep = max(keep, 1)

    def save(self, step: int, checkpoint: Mapping[str, Any]) -> Path:
        """Write the checkpoint of `step`, then remove those older than the newest `keep`; return its folder."""
        path = self._path(step)
        save(path, checkpoint)
        for old in self.steps()[: -self._keep]:
            remove_folder(self._path(old))
        return path

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, ascending."""
        names = [_STEP.fullmatch(path.name) for path in self._folder.glob("step_*")]
        return sorted(int(match[1]) for match in names if match)

    def latest(self) -> dict[str, Any] | None:
        """Return the newest checkpoint, or None where there is none; tidy up what a killed run left."""
        remove_leftovers(self._folder)
        steps = self.steps()
        if not steps:
            return None
        try:
            return load(self._path(steps[-1]))
        except CheckpointError as error:
            earlier = f"; remove {self._path(steps[-1])} to resume at step {steps[-2]}" if len(steps) > 1 else ""
            raise CheckpointError(f"{error}{earlier}") from error

    def _path(self, step: int) -> Path:
        return self._folder / f"step_{step:08d}"


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
