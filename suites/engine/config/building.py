"""From a config to the task it describes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml

from framework import limits, random, set_flush_subnormals, set_num_threads
from framework.data import FaultPolicy, Skipped, Source
from framework.errors import ConfigError
from framework.nn import init
from suites.engine.config import Config, Factory, checked, load_config
from suites.engine.config.plugins import import_plugins
from suites.engine.config.settings import DataSettings, Runtime
from suites.engine.config.tree.paths import format_path
from suites.engine.data.damage import known_damage
from suites.engine.data.sources import find_data
from suites.engine.registry import REGISTRY, load_suites
from suites.engine.slim.narrowing import make_narrow
from suites.engine.weights.lora.layers import add_lora
from suites.engine.weights.published import holds_published, overrides_of
from suites.engine.weights.records import record_names, zoo_folder

if TYPE_CHECKING:
    from suites.engine.contract.capabilities import Kept
    from suites.engine.contract.task import Task


_log = logging.getLogger(__name__)
_COUNTED = "auto"
_SHOWN_LINES = 60  # of a guessed schema
_SHOWN_PLACES = 20
Loader = TypeVar("Loader", bound=Source)


def read_config(source: Path, overrides: Iterable[str] = ()) -> Config:
    """Return the checked config of a file, of one that comes with Paddock, or of a run folder.

    Where `data.num_classes` is "auto" it becomes the number of classes of the training set, which is opened for that;
    where `data.schema` is, the one that its suite guesses from the file (`paddock data schema`). In the place of
    `{type: Published, weights: NAME}` comes what that checkpoint's config.json describes. What the model leaves to the
    data by "auto", such as sizes of anchors, is measured by its suite.

    Raises ConfigError, also where a run remembers plug-ins that are not imported yet.
    """
    if source.is_dir():
        overrides = list(overrides)
        _refuse_lost(source / "config.yml", overrides)
        config = load_config(source / "config.yml", overrides, trusted=False)
        if (places := _places(config)) and not _is_of_a_record(source):
            _show_places(source, ", ".join(places))
        return config
    overrides = list(overrides)
    written = load_config(source, overrides, check=False)
    data = written.as_dict().get("data")
    found = list(_published(written))
    if isinstance(data, dict) and data.get("schema") == _COUNTED:
        found.append(f"data.schema={json.dumps(_declared(written))}")
    if isinstance(data, dict) and data.get("num_classes") == _COUNTED:
        counted = load_config(source, [*overrides, *found], check=False) if found else written
        found.append(f"data.num_classes={_count_classes(counted)}")
    if isinstance(data, dict) and _left_to_data(written.as_dict().get("model")):
        measure = component_of(written["suite"], "measure")
        measured = measure(written) if measure else {}
        found += [f"{path}={json.dumps(value)}" for path, value in measured.items()]
    return load_config(source, [*overrides, *found]) if found else checked(written)


def _left_to_data(value: Any) -> bool:
    """Whether a value is "auto", or any inside of it."""
    if isinstance(value, dict):
        return any(map(_left_to_data, value.values()))
    return any(map(_left_to_data, value)) if isinstance(value, list) else bool(value == _COUNTED)


def _published(config: Config) -> Iterator[str]:
    """Overrides for what published checkpoints describe; see `suites.engine.weights.published`."""
    values = config.as_dict()
    suite = values.get("suite")
    if isinstance(suite, str) and holds_published(values):
        import_plugins(config.imports(), f"{config.source}: imports")
        task_class(suite)
        yield from overrides_of(values, REGISTRY.seen_by(suite))


def _declared(config: Config) -> Any:
    """What the file of the training set is taken to hold, as plain data; what and why is logged."""
    declare = component_of(config["suite"], "declaration")
    place = "data.train.dataset"
    written = config[place]
    root, files = (written.get(key) for key in ("root", "files")) if isinstance(written, dict) else (None, None)
    if declare is None or not isinstance(root, str):
        raise ConfigError(f"{config.source}: data.schema: {_COUNTED}: {place} names no file; write a schema")
    file = find_data(root)
    if file.is_dir():
        file = file / (files or [""])[0]
    text = str(declare(file))
    lines = [line for line in text.splitlines() if not line.startswith(("# Guessed by", "# `paddock"))]
    more = [f"... and {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    said = "\n  ".join([*lines[:_SHOWN_LINES], *more])
    _log.info("data.schema: guessed from %s; a run keeps it in its config.yml:\n  %s", file, said)
    return yaml.safe_load(text)


def _is_of_a_record(run: Path) -> bool:
    """Whether a run folder was made of a record of ours, by one of our configs."""
    folder = run.absolute().parent
    is_named = run.name.startswith("run_") and folder.name in record_names()
    return is_named and folder.parent == zoo_folder().absolute()


@cache  # a command may read a run's config several times
def _show_places(source: Path, places: str) -> None:
    _log.info("%s names these places outside of it: %s", source, places)


def _refuse_lost(file: Path, overrides: list[str]) -> None:
    """Raise ConfigError for an override of what an older version of Paddock wrote out at each place that shared it."""
    if not overrides or not file.is_file():
        return
    root = load_config(file, check=False).root
    leaves = {format_path(path): node for path, node in root.leaves()}
    if any(node.reference for node in leaves.values()):
        return
    given = {text.partition("=")[0].strip() for text in overrides}
    for key in given & set(leaves):
        old = leaves[key].value
        if not isinstance(old, str) or not old:
            continue
        others = [path for path, node in leaves.items() if path not in given and _holds(node.value, old)]
        if others and key.startswith("data.") and key.count(".") == 1:  # such as data.root
            raise ConfigError(
                f"-o {key}: the run's {file.name} was written by an older version, which wrote {key} out at "
                f"{', '.join(others)}; override those too"
            )


def _holds(value: object, shared: str) -> bool:
    return isinstance(value, str) and (value == shared or value.startswith(f"{shared}/"))


def _places(config: Config) -> list[str]:
    """The files and folders that a run's config names, which a person sees before they are read."""
    leaves = ((format_path(path), node.value) for path, node in config.root.leaves())
    found = [f"{key}: {value}" for key, value in leaves if isinstance(value, str) and _is_place(key, value)]
    return found[:_SHOWN_PLACES] + ["..."] * (len(found) > _SHOWN_PLACES)


def _is_place(key: str, value: str) -> bool:
    return bool(value) and ("/" in value or key.rpartition(".")[2] in ("root", "path", "file", "folder", "schema"))


def _count_classes(config: Config) -> int:
    """How many classes the training set of a config has, whose other values may be wrong yet."""
    import_plugins(config.imports(), f"{config.source}: imports")
    place = "data.train.dataset"
    written = config[place]
    count, name = None, written.get("type", place) if isinstance(written, dict) else place
    if not isinstance(written, dict) or _COUNTED not in written.values():  # else it wants to be told
        dataset = config.part(place)
        found: Any = dataset() if isinstance(dataset, Factory) else dataset
        count = getattr(found, "num_classes", None)
    if not isinstance(count, int):
        raise ConfigError(
            f"{config.source}: data.num_classes: {_COUNTED}: {name} does not know its classes; write their number"
        )
    if count < 1:
        raise ConfigError(
            f"{config.source}: data.num_classes: {_COUNTED}: no object of {name} names a class; look at its annotations"
        )
    _log.info("data.num_classes: %d classes in the training set", count)
    return count


def task_class(suite: str) -> type[Task]:
    """Return the task of a suite; raise ConfigError if there is no such suite."""
    seen = REGISTRY.seen_by(suite)
    if suite not in seen.names("task"):
        load_suites([suite])
    found: Any = seen.get("task", suite)
    return found


def component_of(suite: str, role: str) -> Any:
    """Return what a suite has registered for a role that it has at most one of; None where it has none.

    Raises ConfigError if there is no such suite.
    """
    task_class(suite)
    seen = REGISTRY.seen_by(suite)
    return next((seen.get(role, name) for name in seen.names(role)), None)


def build_runtime(config: Config) -> Runtime:
    """Return the `runtime` section."""
    runtime: Runtime = config.build("runtime")
    return runtime


def begin(runtime: Runtime) -> None:
    """Set the threads, their way with subnormal numbers and what files may cost, and restart the default random stream.

    Layers such as dropout draw from that.
    """
    limits.settle(**runtime.limits)
    if runtime.threads is not None:
        set_num_threads(runtime.threads)
    set_flush_subnormals(runtime.flush_subnormals)
    random.seed(runtime.seed)


def build_task(config: Config, kept: Kept | None = None) -> Task:
    """Return the task a config describes, its model freshly drawn from `runtime.seed`.

    `kept` is what a run has of it already; see `suites.engine.run.reopening`. Sets the number of threads and restarts
    the default random stream, from which layers such as dropout draw.
    """
    runtime = build_runtime(config)
    begin(runtime)
    with init.undrawn():
        kind = task_class(config["suite"])
        task = kind.from_config(config) if kept is None else _from_kept(kind, config, kept)
        if config.get("pruning") is not None:
            make_narrow(task.model, config.build("pruning"), starts=runtime.weights is not None)
        if config.get("lora") is not None:
            add_lora(task.model, config.build("lora"))
    init.initialize(task.model, runtime.seed)
    return task


def _from_kept(kind: type[Task], config: Config, kept: Kept) -> Task:
    make = getattr(kind, "from_kept", None)  # see `MadeOfKept`
    task: Task = kind.from_config(config) if make is None else make(config, kept)
    return task


def limited(loader: Loader, settings: DataSettings, instead: Literal["another", "nothing"]) -> Loader:
    """Return `loader`, which from now on skips samples and watches its workers as the settings say.

    `instead` is what takes the place of a sample that cannot be used, see `framework.data.FaultPolicy`.

    Raises DataError where more samples than it bears are known to be damaged.
    """
    loader.faults = FaultPolicy(settings.max_skipped, instead, settings.timeout, settings.hung)
    if damaged := known_damage(loader.dataset):
        Skipped(len(loader.dataset)).add(damaged, loader.faults)
    return loader
