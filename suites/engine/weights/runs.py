"""A run folder of published weights, so that every command works on them: infer, eval, export, serve."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from framework.atomic import make_folder, remove
from framework.errors import ConfigError
from framework.extras import DISTRIBUTION
from framework.io import save_tensors
from framework.locks import alone
from suites.engine.config import Config
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.capabilities import NamesClasses, name_classes
from suites.engine.run.environment import package_version
from suites.engine.run.folder import RunFolder
from suites.engine.weights.fetching import check_file
from suites.engine.weights.hub.names import is_hub
from suites.engine.weights.hub.sharing import is_shared_run, unpack
from suites.engine.weights.pretrained import load_wanted, loaded_names, wants_weights
from suites.engine.weights.published import WEIGHT_FILES, whole_model
from suites.engine.weights.records import Record, find_record, get_record, zoo_folder
from suites.engine.weights.wanted import is_here, offer_record

_DESCRIPTION = "config.json"
_OURS = ("config.yml", "program.json", "model.onnx")  # of runs and exports


def named_run(name: str, *, fetch_all: bool = False) -> Path | None:
    """The run folder of published weights that a name means, made at its first use; None where no record has the name.

    It lies with the record's files, that of a checkpoint's folder (`is_checkpoint`) in the zoo's folder. Files that are
    missing are fetched if the user says so, on a terminal or by `fetch_all`.

    Raises:
        ConfigError: the record has no whole model.
        CheckpointError: the weights are not here, or are other ones.
    """
    record = find_record(name)
    if record is None:
        return _of_folder(Path(name)) if is_checkpoint(Path(name)) else None
    config = None if is_hub(name) else _config_of(record)  # nothing is fetched without one
    _expect_fetched(record, fetch_all=fetch_all)
    if config is None:
        return _of_hub(name)
    return _made(record.folder(), config.digest(), lambda path: write_run(record, path))


def _expect_fetched(record: Record, *, fetch_all: bool = False) -> None:
    """Fetch a record's files that are missing, if the user says so; else raise the error with the command that does."""
    if is_here(record) or offer_record(record, fetch_all=fetch_all):
        return
    for file in record.files:
        check_file(record.folder() / file.name, file, record)


def run_at(path: Path) -> Path:
    """The folder or file that a path means to a command: itself, or the run of the published weights that it names."""
    return path if path.exists() and not is_checkpoint(path) else named_run(str(path)) or path


def is_checkpoint(path: Path) -> bool:
    """Whether a folder holds a network as transformers saves it: a config.json beside weights."""
    if not (path / _DESCRIPTION).is_file() or any((path / name).is_file() for name in _OURS):
        return False
    return any(file.suffix in WEIGHT_FILES and not file.name.startswith(".") for file in path.iterdir())


def _of_hub(name: str) -> Path:
    """The run folder of a repository: a shared run of ours, or the whole model that its config.json names."""
    record = get_record(name)  # as it is now that its files are here

    def make(path: Path) -> None:
        for file in record.files:
            check_file(record.folder() / file.name, file, record)
        _write_whole(name, record.folder(), path)

    return _made(record.folder(), "", make)


def _of_folder(folder: Path) -> Path:
    """The run folder of a checkpoint that lies somewhere else; it is made again where a file there has changed."""
    folder = folder.resolve()
    files = sorted(file for pattern in ("*", "*/*.json") for file in folder.glob(pattern) if file.is_file())
    state = [(str(file.relative_to(folder)), *_state(file)) for file in files]
    place = zoo_folder() / "folders" / hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return _made(place, json.dumps(state), lambda path: _write_whole(str(folder), folder, path))


def _state(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _write_whole(name: str, folder: Path, path: Path) -> None:
    """Make the run folder of a repository's files: a shared run of ours, or the model that its config.json names."""
    if is_shared_run(folder):
        unpack(folder, path)
        return
    whole = whole_model(name)
    _write(name, whole.config, read_config(Path(whole.config), whole.overrides), path, whole.names)


def _made(place: Path, state: str, make: Callable[[Path], object]) -> Path:
    """A run folder in `place`, made where it is not there yet by `make`, which is given its path.

    It is made anew, in place of older ones, where `state` is another, or Paddock's version, whose networks may have
    other tensors than those of the version that made it.
    """
    now = hashlib.sha256(f"{package_version(DISTRIBUTION)} {state}".encode()).hexdigest()[:16]
    path = place / f"run_{now}"
    last = path / "weights" / "best.safetensors"  # the last file that is written
    if not last.is_file():
        make_folder(path.parent)
        with alone(path.parent / ".running"):  # of several processes one makes it
            if not last.is_file():
                for older in path.parent.glob("run_*"):
                    remove(older)
                make(path)
    return path


def write_run(
    record: Record, path: Path, overrides: Sequence[str] = (), names: Sequence[str] | None = None
) -> list[str]:
    """Make a run folder of a record whose config's whole model is pretrained; return what was loaded.

    The data of the config need not be there. Classes are called by `names`, as the record says, or by their numbers.

    Raises:
        ConfigError: the record has no such config, or the folder is taken.
        CheckpointError: the weights are not fetched.
    """
    config = _config_of(record, overrides)
    _expect_fetched(record)
    return _write(record.name, str(record.config), config, path, names or record.names_of_classes())


def _write(name: str, called: str, config: Config, path: Path, names: Sequence[str] | None) -> list[str]:
    """Make a run folder of a config, `called` so, whose whole model is pretrained; `name` is that of the weights."""
    task = build_task(config)
    lines = load_wanted(task.model) if wants_weights(task.model) else []
    if set(task.model.state_dict()) - loaded_names(task.model):
        raise ConfigError(f"{name}: {called} has to be trained first: not all of its model is in there")
    if isinstance(task, NamesClasses) and hasattr(task.model, "num_classes"):  # an embedder has none
        count: int = task.model.num_classes
        names = names or [str(k) for k in range(count)]
        if len(names) != count:
            raise ConfigError(f"{name}: the model has {count} classes but there are names of {len(names)}")
        name_classes(task, names)
    run = RunFolder.create(path, config)
    try:
        run.write_processor(task.processor())
        save_tensors(run.weights / "best.safetensors", task.model.state_dict())
    finally:
        run.close()
    return lines


def _config_of(record: Record, overrides: Sequence[str] = ()) -> Config:
    if record.config is None:
        raise ConfigError(f"{record.name}: no config of ours has the whole model; name it in `pretrained` of yours")
    return read_config(Path(record.config), [*record.overrides, *overrides])
