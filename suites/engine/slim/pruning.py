"""Pruning of a run, whatever its suite: by what the suite registered as `pruner`, else of channels."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from framework.atomic import write_text
from framework.errors import CheckpointError, ConfigError
from framework.outside import read_json
from suites.engine.config.building import component_of, read_config
from suites.engine.names import listing
from suites.engine.slim.channels import prune_channels
from suites.engine.slim.wishes import Wishes

_log = logging.getLogger(__name__)
ASKED = "pruning_asked.json"  # in a smaller run's folder
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
    if told is None:
        told = prune_channels(run, output, wishes, overwrite=overwrite)
    write_text(output / ASKED, json.dumps(_asked(run, wishes), indent=1) + "\n")
    return told


def expect_cut_so(run: Path, small: Path, wishes: Wishes) -> None:
    """Refuse to go on with a smaller run that was cut otherwise, or from another run.

    A run of before 2026-11-30 does not say how it was cut, which the log tells. Raises ConfigError.
    """
    try:
        known = dict(read_json(small / ASKED))
    except (OSError, ValueError, TypeError, CheckpointError):
        _log.warning("prune: %s does not say how it was cut (%s); goes on with it as it is", small, ASKED)
        return
    wanted = _asked(run, wishes)
    if known != wanted:
        names = [name for name in wanted if known.get(name) != wanted[name]]
        told = listing(f"{name} {known.get(name)}, not {wanted[name]}" for name in names)
        raise ConfigError(
            f"prune: {small} was cut otherwise ({told}); leave out --resume, and take --overwrite or another --name"
        )


def _asked(run: Path, wishes: Wishes) -> dict[str, Any]:
    """What decides how a run is cut, as JSON holds it."""
    asked = {name: value for name, value in asdict(wishes).items() if name != "threads"}
    return {"run": str(run.resolve())} | asked | {"keep": list(wishes.keep)}
