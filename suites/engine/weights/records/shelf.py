"""Where records of published weights and their files lie, and what a list says of them: light, as lists are quick."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import suites
from framework.errors import ConfigError
from suites.engine.config.tree.yaml_text import read_file

FOLDER_VARIABLE = "PADDOCK_ZOO"
_OF_PROJECT = Path("cache") / "zoo"  # in the working folder; taken where it is there


def zoo_folder() -> Path:
    """The folder of fetched weights, shared by all projects of a user.

    `$PADDOCK_ZOO`; else `cache/zoo` of the working folder where that is there; else `$XDG_CACHE_HOME/paddock/zoo`, by
    default `~/.cache/paddock/zoo`.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named or _OF_PROJECT.is_dir():
        return Path(named or _OF_PROJECT)
    caches = os.environ.get("XDG_CACHE_HOME", "")  # its specification: a relative one is ignored
    return (Path(caches) if Path(caches).is_absolute() else Path.home() / ".cache") / "paddock" / "zoo"


def records_folder() -> Path:
    """The folder of the records: a part of an installed wheel, in a clone the one beside `suites`."""
    package = Path(suites.__file__).resolve().parent
    installed = package / "zoo"
    return installed if installed.is_dir() else package.parent / "zoo"


def record_names() -> list[str]:
    """Names of all records, sorted."""
    return sorted(path.stem for path in records_folder().glob("*.yml"))


@dataclass(frozen=True)
class Brief:
    """What a list says of a record.

    Attributes:
        name: the record's.
        what: one line about it.
        files: names of its files.
        bytes: of all of them; None where they are not known.
    """

    name: str
    what: str
    files: tuple[str, ...]
    bytes: int | None

    @property
    def here(self) -> bool:
        """Whether all files lie in the zoo's folder."""
        return all((zoo_folder() / self.name / file).is_file() for file in self.files)


def read_brief(name: str) -> Brief:
    """What a list says of a record of ours, without a check of the rest: lists have to be quick."""
    try:
        plain = read_file(records_folder() / f"{name}.yml", name).plain()
        whole = plain["archive"]["bytes"]
        sizes = [file.get("bytes") or whole for file in plain["files"]]
        known = None if None in sizes else sum(sizes)
        return Brief(name, plain["what"], tuple(file["name"] for file in plain["files"]), known)
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"zoo/{name}.yml is no record: `paddock zoo show {name}` says where it is wrong") from error
