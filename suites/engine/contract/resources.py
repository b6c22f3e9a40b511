"""Resources: what a model has beside its weights and keeps in files of its own, such as a table of rows.

A weight file that has resources names a folder beside it: `best.safetensors` and `best.3f2a9c1e/<resource>/`. The
folder is written first and has a name of its own each time, so a crash never pairs old weights with new rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from framework.atomic import make_folder, remove_folder
from framework.errors import CheckpointError
from framework.io import load_metadata, save_tensors
from suites.engine.weights import load_weights
from suites.engine.weights.eight_bits import put_as

if TYPE_CHECKING:
    from framework import Tensor
    from suites.engine.contract.task import Task

FOLDER = "resources"  # of a checkpoint
_KEY = "paddock.resources"  # metadata key of a weight file: the folder beside it


class Resource(Protocol):
    """Something large that grows, with its own files."""

    def save(self, path: Path, /) -> object:
        """Write everything into a folder that does not exist yet."""

    def placed(self, path: Path, /) -> None:
        """Take note that what was saved last lies at `path` now; the next save may share files with it."""

    def load(self, path: Path, /) -> None:
        """Replace everything by what a folder holds; raise CheckpointError where it is damaged or of another kind."""


def save_resources(folder: Path, resources: Mapping[str, Resource]) -> None:
    """Write each resource into `folder` below its name."""
    make_folder(folder)
    for name, resource in resources.items():
        resource.save(folder / name)


def place_resources(folder: Path, resources: Mapping[str, Resource]) -> None:
    """Tell the resources where they lie, after the folder that they were saved into was renamed."""
    for name, resource in resources.items():
        resource.placed(folder / name)


def load_resources(folder: Path | None, resources: Mapping[str, Resource], of: str) -> None:
    """Fill each resource from `folder`; raise CheckpointError where one is not there. `of`: what it belongs to."""
    for name, resource in resources.items():
        if folder is None or not (folder / name).is_dir():
            where = "no folder is named in it" if folder is None else f"{folder / name} is not there"
            raise CheckpointError(f"{of}: the model's '{name}' does not lie beside it ({where}); copy both together")
        resource.load(folder / name)


def save_deployed(path: Path, weights: Mapping[str, Tensor], resources: Mapping[str, Resource]) -> None:
    """Write a weight file with its resources; an older one is replaced only when the new one is complete."""
    if not resources:
        save_tensors(path, weights)
        return
    folder = path.with_name(f"{path.stem}.{secrets.token_hex(4)}")
    save_resources(folder, resources)
    save_tensors(path, weights, {_KEY: folder.name})
    for other in path.parent.glob(f"{path.stem}.????????"):  # that of the file before, and what a killed run left
        if other.is_dir() and other != folder:
            remove_folder(other)


def has_resources(path: Path) -> bool:
    """Return whether a weight file names a folder of resources."""
    return _KEY in load_metadata(path)


@runtime_checkable
class KeepsResources(Protocol):
    """Offered by tasks whose model keeps something in files of its own, such as a table of rows."""

    def resources(self) -> Mapping[str, Resource]:
        """Return them by name."""


def resources_of(task: Task) -> Mapping[str, Resource]:
    """Return what the model keeps in files of its own, by name."""
    return task.resources() if isinstance(task, KeepsResources) else {}


def load_deployed(task: Task, path: Path) -> None:
    """Put the weights of a file, and the resources that go with them, into the task's model.

    A model whose weights are of training in 8 bits becomes one that computes in 8 bits.

    Raises CheckpointError where one of them is damaged, missing or another model's.
    """
    load_weights(task.model, path, before=lambda tensors: put_as(task, tensors))
    resources = resources_of(task)
    if resources:
        name = load_metadata(path).get(_KEY)
        beside = path.parent / (name if name is not None else FOLDER)
        load_resources(beside if name is not None or beside.is_dir() else None, resources, str(path))
