"""Pruning of a run, whatever its suite: by what the suite registered as `pruner`, else of channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from suites.engine.config.building import component_of, read_config
from suites.engine.slim.channels import prune_channels
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
        ConfigError: the run trains in a way that does not go with it; the folder holds another run.
        AttributeValueError: wishes that the model cannot meet.
    """
    own: Pruner | None = component_of(read_config(run)["suite"], "pruner")
    told = own(run, output, wishes, overwrite) if own is not None else None
    return told if told is not None else prune_channels(run, output, wishes, overwrite=overwrite)
