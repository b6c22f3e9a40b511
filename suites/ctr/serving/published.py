"""What lies in the folder `rows` of an export, and how a publication is added to it.

`rows.json` names the model and the files that are valid together: a whole snapshot of the table, the deltas that follow
it, where they are newer than the export's the weights of the dense part, and the items of a model that retrieves some.
It is replaced when all of them are
there. So a training run publishes into the folder of a model that is being served, or files are copied there,
`rows.json` last.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from framework.atomic import make_folder, move, remove_file, remove_folder, write_text
from framework.confined import confine
from framework.errors import CheckpointError
from framework.graph.files import save_program
from framework.outside import read_json
from framework.remedies import refusal
from suites.ctr.schema import Schema
from suites.engine.neighbours.items import ItemIndex

if TYPE_CHECKING:
    from framework.graph.ir import Program
    from framework.table.state import Chain

FOLDER, LIST = "rows", "rows.json"
_MOST_DELTAS = 16  # after which a whole snapshot is written again: each makes look-ups slower
RowType = Literal["float32", "float16", "int8"]


class Published(Protocol):
    """What has rows to publish: a `Table`, or the rows of all shards (`framework.table.remote.ShardRows`)."""

    @property
    def published(self) -> Chain | None:
        """What was written last, which a delta follows."""

    def snapshot(self, path: Path | str, dtype: RowType = "float32", *, delta: bool = False) -> str:
        """Write all rows, or those that changed; return the id of the file."""


@dataclass(frozen=True)
class Publication:
    """What is valid together.

    Attributes:
        model: see `model_key`.
        files: of rows, the whole snapshot first.
        dense: folder of the dense part; None for the export's own.
        items: folder of the items, of models that retrieve some; else None.
        network: what takes the rows, such as "DeepFM"; "" where nobody said.
    """

    model: str
    files: tuple[str, ...]
    dense: str | None = None
    items: str | None = None
    network: str = ""

    @property
    def version(self) -> str:
        """The id of the newest file of rows; each publication writes one."""
        return self.files[-1].split(".")[0]

    @classmethod
    def read(cls, export: Path, key: str) -> Publication:
        """What is valid beside an export.

        Raises CheckpointError for a list that is none, or of another model than `key` says.
        """
        path = export / FOLDER / LIST
        try:
            told = read_json(path)
            network = told.get("network", "")
            found = cls(told["model"], tuple(told["files"]), told.get("dense"), told.get("items"), network)
            good = len(found.files) > 0 and all(map(_is_name, (network, *found.names())))
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror}); export the model again") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            good = False
        if not good:
            raise CheckpointError(f"{path}: names no files of rows; publish them again")
        if found.model != key:
            raise CheckpointError(
                f"{path}: holds rows of a model with other features or labels; export into a folder of its own"
            )
        return found

    def write(self, export: Path) -> None:
        """Make this what is valid."""
        told: dict[str, Any] = {"model": self.model, "files": list(self.files), "dense": self.dense}
        told |= {"items": self.items} if self.items else {}
        told |= {"network": self.network} if self.network else {}
        write_text(export / FOLDER / LIST, json.dumps(told) + "\n")

    def expect(self, network: str, path: Path) -> None:
        """Raise CheckpointError where these are rows for another network; a row means something to its own only."""
        if network and self.network and network != self.network:
            raise CheckpointError(
                f"{path}: its rows are for {self.network}, not for {network}; publish into an export of its own"
            )

    def names(self) -> set[str]:
        """Of all files and folders."""
        return {*self.files, *(name for name in (self.dense, self.items) if name)}


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and Path(text).name == text


def model_key(schema: Schema) -> str:
    """What tells the rows of one model from those of another: its features, slots and labels; not their values."""
    told = {"slots": schema.slots(), "fields": repr(schema.fields())}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def publish(
    table: Published,
    schema: Schema,
    export: Path,
    dtype: RowType = "float32",
    *,
    dense: Program | Literal["export", "kept"] = "kept",
    items: ItemIndex | None = None,
    network: str = "",
) -> str:
    """Write what changed of a table beside an export, or all of it where nothing can be built on; return the file.

    Args:
        table: whose rows they are.
        schema: of the model, which the export has to be of, too.
        export: folder of the export.
        dtype: of the rows, see `framework.table.snapshot`.
        dense: the network that goes with these rows; or "export" for the export's own, "kept" for that of the last
            publication.
        items: of these rows and this network, of models that retrieve some; one without never follows one with.
        network: what takes the rows, such as "DeepFM".

    Raises CheckpointError where the files cannot be written, or those there are another model's; what is served stays.
    """
    folder = export / FOLDER
    confine(export)
    make_folder(folder)
    key = model_key(schema)
    before = Publication.read(export, key) if (folder / LIST).is_file() else Publication(key, ())
    before.expect(network, folder / LIST)
    newest = before.version if 0 < len(before.files) <= _MOST_DELTAS else None
    follows = newest is not None and table.published is not None and table.published.id == newest
    part = folder / ".new"
    version = table.snapshot(part, dtype, delta=follows)
    name = f"{version}.{'delta' if follows else 'base'}"
    move(part, folder / name)
    beside = {"export": None, "kept": before.dense}[dense] if isinstance(dense, str) else f"{version}.dense"
    if not isinstance(dense, str):
        _write_dense(dense, folder / f"{version}.dense")
    if items is not None:
        items.save(folder / f"{version}.items")
    files = (*before.files, name) if follows else (name,)
    found = None if items is None else f"{version}.items"
    now = Publication(key, files, beside, found, network or before.network)
    now.write(export)
    _remove_others(folder, now.names() | before.names())
    return name


def _write_dense(network: Program, folder: Path) -> None:
    try:
        save_program(network, folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({refusal(error)})") from error


def _remove_others(folder: Path, names: set[str]) -> None:
    """Files of rows that are not valid any more go; who has one mapped keeps it."""
    for old in folder.iterdir():
        if old.name in names:
            continue
        if old.suffix in (".base", ".delta"):
            remove_file(old)
        elif old.suffix in (".dense", ".items"):
            remove_folder(old)
