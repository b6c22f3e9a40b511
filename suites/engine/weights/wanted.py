"""Weights that a config names and that are not here yet: fetched when the user says so, never unasked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from framework.errors import ConfigError
from suites.engine.config import load_config
from suites.engine.weights.fetching import fetch, is_agreed
from suites.engine.weights.hub.names import is_hub
from suites.engine.weights.hub.repository import described
from suites.engine.weights.records import Record, find_record

_KEYS = ("pretrained", "weights")  # of a config whose values may be names of records


def offer_weights(
    source: Path, overrides: Iterable[str], *, fetch_all: bool, ask: Callable[[str], bool] | None = None
) -> list[Record]:
    """Fetch the published weights that a config names and that are missing; return those that were fetched.

    Args:
        source: a config file, or the name of a shipped one; a run's folder names none.
        overrides: `path=value` texts.
        fetch_all: whether the user said yes already.
        ask: returns the user's answer to a question; by default one on the terminal, and no where there is none.

    Raises CheckpointError where the weights cannot be fetched.
    """
    if source.is_dir():
        return []
    try:
        config = load_config(source, list(overrides), check=False).as_dict()
    except ConfigError:
        return []  # told when the config is used
    return [record for record in _missing(config) if offer_record(record, fetch_all=fetch_all, ask=ask)]


def offer_record(record: Record, *, fetch_all: bool = False, ask: Callable[[str], bool] | None = None) -> bool:
    """Fetch a record's files if the user says so; whether they were fetched. See `offer_weights`."""
    if not fetch_all and not is_agreed() and not _agreed(record, ask):
        return False
    fetch(record, say=lambda line: print(line, file=sys.stderr))
    return True


def _agreed(record: Record, ask: Callable[[str], bool] | None) -> bool:
    """Whether the user says yes to a record; what the hub has is looked up only where somebody can answer."""
    if ask is None and not _at_terminal():
        return False
    what = f"{record.size} from {record.archive}, licence {record.licence}"
    if is_hub(record.name):
        what = f"{described(record.name)} from {record.archive}"
    return (ask or asked)(f"{record.name} is not here yet: {what}. Fetch it?")


def is_here(record: Record) -> bool:
    """Whether all files of a record are there; they are checked when they are used."""
    return all((record.folder() / file.name).is_file() for file in record.files)


def asked(question: str) -> bool:
    """Whether the user answers yes on the terminal; False where nobody sits at one."""
    if not _at_terminal():
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _at_terminal() -> bool:
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def _missing(value: Any) -> list[Record]:
    """The records that a config names, each once, of which a file is not here."""
    found = {name: find_record(name) for name in _names(value)}
    records = [record for record in found.values() if record is not None]
    return [record for record in records if not is_here(record)]


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _KEYS and isinstance(inner, str):
                yield inner
            else:
                yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
