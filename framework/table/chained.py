"""Saves of one table that cost what changed: a folder holds a base and the deltas that follow it, each a folder.

    signs/    chain.json    0000/    0001/    0002/

A folder is whole by itself. What it shares with the folder that was saved before it are hard links, so either may be
removed. After `most` deltas, or when they are as large as the base, a base is written again.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from framework.atomic import atomic_folder, flush, write_text
from framework.errors import AttributeValueError, CheckpointError
from framework.remedies import refusal
from framework.table.folders import CHAIN, FORMAT, ids_of
from framework.table.table import Table

_log = logging.getLogger(__name__)


class Chained:
    """Saves and loads a table; each save holds everything, and writes what changed since the one before.

    Across file systems, or on one without hard links, each save is a base.

    Args:
        table: the table, which nobody else saves meanwhile.
        most: deltas that follow a base at most; 0 writes everything each time.
    """

    def __init__(self, table: Table, most: int = 16) -> None:
        if most < 0:
            raise AttributeValueError(f"table '{table.name}': most is {most} deltas; it must be 0 or more")
        self._table, self._most = table, most
        self._before: Path | None = None  # what was saved or loaded last

    def save(self, path: Path) -> None:
        """Write the folder, whole or not at all.

        Raises CheckpointError where it cannot be written; the next save is a base then.
        """
        before = self._to_follow()
        self._before = None
        try:
            with atomic_folder(path) as part:
                ids = [] if before is None else _linked(before, part)
                own = part / f"{len(ids):04d}"
                ids.append(self._table.save_delta(own) if ids else self._table.save(own))
                write_text(part / CHAIN, json.dumps({"format": FORMAT, "ids": ids}) + "\n")
        except OSError as error:
            raise CheckpointError(f"{path}: the table cannot be written there ({refusal(error)})") from error
        self._before = path

    def placed(self, path: Path) -> None:
        """What was saved last lies at `path` now."""
        self._before = path

    def load(self, path: Path) -> None:
        """Take up what `save` wrote, or a base that `Table.save` wrote; CheckpointError where it is damaged."""
        self._table.load(path)
        self._before = path if (path / CHAIN).is_file() else None

    def _to_follow(self) -> Path | None:
        """The folder whose files the next one shares; None where there is none or it would grow too long."""
        own = self._table.chain
        if self._before is None or own is None or self._most == 0:
            return None
        try:
            ids = ids_of(self._before)
            sizes = [_bytes(self._before / f"{k:04d}") for k in range(len(ids))]
        except (CheckpointError, OSError):
            return None  # somebody removed it
        short = len(ids) <= self._most and sum(sizes[1:]) <= sizes[0]
        return self._before if ids[-1] == own.id and short else None


def _linked(before: Path, part: Path) -> list[str]:
    """Put links to the folders of a save into `part`; returns their ids, or none where there are no hard links."""
    ids = ids_of(before)
    try:
        for k in range(len(ids)):
            (part / f"{k:04d}").mkdir()
            for file in (before / f"{k:04d}").iterdir():
                os.link(file, part / f"{k:04d}" / file.name)
            flush(part / f"{k:04d}")
    except OSError as error:
        _log.warning("%s: cannot be shared with %s (%s); everything is written again", before, part, error.strerror)
        for file in sorted(part.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        return []
    return ids


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())
