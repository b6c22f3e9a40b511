"""Whose weights a model has, by which a run and what was exported of it know each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from framework.errors import CheckpointError
from framework.io import sha256
from suites.engine.config import Config

_NETWORK = ("model", "pruning", "lora", "eight_bits")  # sections that say what the weights are of


class Origin(NamedTuple):
    """Whose weights a model has.

    Attributes:
        network: SHA-256 of the run's weights and of what its config says of the network.
        numbers: "" where it computes as the run does; of an export that was rounded to 8 bits the SHA-256 of its files.
    """

    network: str
    numbers: str = ""


def origin_of_run(config: Config, weights: Path) -> Origin:
    """That of a run with the weights in a file."""
    said = {name: config[name] for name in _NETWORK if config.has(name)}
    return Origin(_digest([sha256(weights), json.dumps(said, sort_keys=True, default=str)]))


def origin_of_export(extra: Mapping[str, Any], files: Iterable[Path], where: str) -> Origin:
    """That of an export by what `paddock export` wrote of it; where it wrote nothing, that of the files alone.

    Raises CheckpointError where it is of another form.
    """
    said = extra.get("origin")
    if said is None:
        return Origin(_digest(map(sha256, files)))
    if not isinstance(said, dict) or not isinstance(said.get("network"), str):
        raise CheckpointError(f"{where}: 'origin' is {str(said)[:60]!r}; export it again")
    return Origin(said["network"], _digest(map(sha256, files)) if said.get("rounded") else "")


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
