"""What was fetched into the zoo's folder: checked again, and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from framework.atomic import remove
from framework.errors import CheckpointError, ConfigError
from framework.locks import alone
from suites.engine.weights.fetching import check_file
from suites.engine.weights.hub.names import MANIFEST, PREFIX
from suites.engine.weights.records import Record, get_record, record_names, zoo_folder
from suites.engine.weights.wanted import is_here


def kept_records() -> Iterator[Record]:
    """Records of which files are here, and repositories of the hub by their commits."""
    for name in record_names():
        record = get_record(name)
        if any((record.folder() / file.name).is_file() for file in record.files):
            yield record
    for manifest in sorted(zoo_folder().glob(f"hf/*--*/*/{MANIFEST}")):
        owner, _, name = manifest.parent.parent.name.partition("--")
        yield get_record(f"{PREFIX}{owner}/{name}@{manifest.parent.name}")


def check(record: Record) -> str | None:
    """What is wrong with the files of a record; None where all have their sizes and digests."""
    try:
        for file in record.files:
            check_file(record.folder() / file.name, file, record)
    except CheckpointError as error:
        return str(error)
    return None


def remove_kept(name: str) -> tuple[Path, int]:
    """Remove what was fetched of a record or repository, and what was made of it; its folder and how many bytes it had.

    Raises ConfigError where nothing of it is here.
    """
    record = get_record(name)
    folder = record.folder()
    if not is_here(record) and not folder.is_dir():
        raise ConfigError(f"{name}: nothing of it is in {zoo_folder()}")
    with alone(folder / ".fetching"):  # nobody is fetching it
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        remove(folder)
    return folder, size
