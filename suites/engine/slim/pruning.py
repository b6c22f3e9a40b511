"""Pruning of a run, whatever its suite: a smaller run, made by what the suite registered as `pruner`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from framework.errors import ConfigError
from suites.engine.config.building import component_of, read_config
from suites.engine.slim.wishes import Wishes

Pruner = Callable[[Path, Path, Wishes, bool], str | None]


def prune_run(run: Path, output: Path, wishes: Wishes, *, overwrite: bool = False) -> str:
    """Write a smaller model of a run as a run of its own, whose config trains it on; return what was cut, in words.

    Args:
        run: the folder of a run.
        output: the folder of the new run.
        wishes: what stays.
        overwrite: replace a run in the folder.

    Raises:
        ConfigError: nothing prunes such a model; the folder holds another run.
        AttributeValueError: wishes that the model cannot meet.
    """
    suite = read_config(run)["suite"]
    own: Pruner | None = component_of(suite, "pruner")
    told = own(run, output, wishes, overwrite) if own is not None else None
    if told is None:
        raise ConfigError(f"prune: {run} is a run of {suite}; only models on a Bert are pruned")
    return told
