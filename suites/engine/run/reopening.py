"""The task of a run, made of what the run keeps: files that only its beginning read may be gone, its folder moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.confined import expect_no_way_out
from suites.engine.config import Config, load_config
from suites.engine.config.building import build_task, read_config, task_class
from suites.engine.contract.capabilities import Kept, adopt
from suites.engine.contract.task import Task
from suites.engine.run.folder import RunFolder, different_keys


def reopen(path: Path, overrides: Sequence[str] = ()) -> tuple[Config, Task]:
    """Return the config of the run at `path` with `overrides`, and its task with the preprocessing of its training.

    The model has its first weights; `load_deployed` gives it the trained ones.

    Raises:
        ConfigError: the config or an override is wrong, also one of what a run keeps as it is.
        CheckpointError: the run's processor.json is missing or damaged.
    """
    config = read_config(path, overrides)
    return config, task_of_run(RunFolder(path), config)


def read_task(source: Path, overrides: Sequence[str] = ()) -> tuple[Config, Task]:
    """Return the config and the task of a config file, or of a run's folder as `reopen` has it."""
    if source.is_dir():
        return reopen(source, overrides)
    config = read_config(source, overrides)
    return config, build_task(config)


def task_of_run(run: RunFolder, config: Config) -> Task:
    """Return the task of a run that is evaluated, exported or served with `config`; see `reopen`."""
    kept = _kept_of(run, config)
    task = build_task(config, kept)
    adopt(task, kept.processor)
    return task


def task_to_continue(run: RunFolder, config: Config) -> Task:
    """Return the task with which training of `config` goes on in `run`; the trainer compares them and adopts.

    A run that was ended before it kept anything begins anew.
    """
    if not (run.config.is_file() and run.processor.is_file()):
        return build_task(config)
    expect_no_way_out(run.path)
    if load_config(run.config, check=False)["suite"] != config["suite"]:
        return build_task(config)
    return build_task(config, _kept_of(run, config))


def _kept_of(run: RunFolder, config: Config) -> Kept:
    changed = different_keys(load_config(run.config, check=False).as_dict(), config.as_dict())
    return Kept(run.read_processor(task_class(config["suite"]).processor_class), tuple(changed))
