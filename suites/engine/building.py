"""From a resolved config to the parts of a run: task, optimizer, schedule."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suites.engine.config import Config, load_config
from suites.engine.registry import REGISTRY, load_suites
from suites.engine.settings import Runtime

if TYPE_CHECKING:
    from suites.engine.task import Task


def read_config(source: Path, overrides: Iterable[str] = ()) -> Config:
    """Return the checked config of a file, or of a run folder; raise ConfigError."""
    return load_config(source / "config.yml" if source.is_dir() else source, overrides)


def task_class(suite: str) -> type[Task]:
    """Return the task of a suite; raise ConfigError if there is no such suite."""
    load_suites([suite])
    found: Any = REGISTRY.get("task", suite)
    return found


def build_task(config: Config) -> Task:
    """Return the task a config describes, its model freshly initialised from `runtime.seed`."""
    return task_class(config["suite"])(config)


def build_runtime(config: Config) -> Runtime:
    """Return the `runtime` section."""
    runtime: Runtime = config.build("runtime")
    return runtime
