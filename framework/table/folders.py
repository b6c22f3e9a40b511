"""Which folders a save consists of, and in which order: what `Chained` lists in `chain.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.outside import read_json

CHAIN = "chain.json"  # ids of the folders, in order
FORMAT = 1


def folders_of(path: Path) -> list[Path]:
    """The base and the deltas that a folder stands for: those of its chain, or itself.

    Raises CheckpointError where the list of the chain is damaged or a folder of it is missing; it says up to where all
    are there.
    """
    if not (path / CHAIN).is_file():
        return [path]
    ids = ids_of(path)
    found = [path / f"{k:04d}" for k in range(len(ids))]
    for k, folder in enumerate(found):
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: is missing{up_to(found[:k])}")
    return found


def up_to(whole: list[Path]) -> str:
    """What an error says of the folders before a damaged one."""
    if not whole:
        return "; it is the base, so nothing of this save can be used: take an earlier one"
    return f"; the save is whole up to {whole[-1].name}: Table.open({str(whole[0])!r}, deltas=[...]) or an earlier save"


def ids_of(path: Path) -> list[str]:
    """The ids of the folders that a save lists; CheckpointError where the list is damaged."""
    try:
        found: Any = read_json(path / CHAIN)
        ids = found["ids"]
        if found["format"] != FORMAT or not ids or not all(isinstance(each, str) for each in ids):
            raise ValueError("it lists no folders")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path / CHAIN}: cannot be read ({error}); take an earlier save") from None
    return list(ids)
