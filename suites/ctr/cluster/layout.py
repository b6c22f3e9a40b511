"""Layout: which folders hold the buckets of a run's table, and from which others they come when their number changes.

cluster/work.json               see suites.ctr.cluster.work
cluster/layout.json             {"number": 2, "shards": 3}
cluster/layout-0002/shard-0/    checkpoint and log, see framework.table.remote.store
cluster/layout-0002/shard-0.json    where it listens
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from framework.atomic import make_folder, remove_file, remove_folder, write_text
from framework.errors import CheckpointError
from framework.outside import read_json

FILE = "layout.json"


@dataclass(frozen=True)
class Layout:
    """Folders of a number of shards.

    Args:
        root: of all layouts of the run.
        number: of this one.
        shards: how many.
        sources: folders of the shards before it, which it takes the buckets from.
    """

    root: Path
    number: int
    shards: int
    sources: tuple[Path, ...] = ()

    @classmethod
    def choose(cls, root: Path, shards: int) -> Layout:
        """The run's layout if it has this many shards, else a new one that takes the buckets over.

        Raises CheckpointError for a file that is damaged.
        """
        path = root / FILE
        if not path.is_file():
            return cls(root, 1, shards)
        try:
            told = read_json(path)
            before = cls(root, int(told["number"]), int(told["shards"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: cannot be read ({error})") from None
        if before.shards == shards:
            return before
        return cls(root, before.number + 1, shards, tuple(before.folder(i) for i in range(before.shards)))

    @property
    def _name(self) -> str:
        return f"layout-{self.number:04d}"

    def folder(self, shard: int) -> Path:
        """Of a shard's checkpoint and log."""
        return self.root / self._name / f"shard-{shard}"

    def announcement(self, shard: int) -> Path:
        """The file that says where a shard is."""
        return self.root / self._name / f"shard-{shard}.json"

    def prepare(self) -> None:
        """Make the folders; nobody is announced."""
        for shard in range(self.shards):
            make_folder(self.folder(shard))
            remove_file(self.announcement(shard))

    def confirm(self) -> None:
        """From now on this layout counts: all its shards have their buckets. Those before it are removed."""
        write_text(self.root / FILE, json.dumps({"number": self.number, "shards": self.shards}) + "\n")
        for old in self.root.glob("layout-*"):
            if old.is_dir() and old.name != self._name:
                remove_folder(old)
