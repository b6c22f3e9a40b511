"""A shard as a process of its own: `python -m framework.table.remote shard.spec.json`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import framework
from framework.atomic import make_folder, write_text
from framework.errors import PaddockError
from framework.outside import read_json
from framework.table import files
from framework.table.policies import Limit
from framework.table.remote import store
from framework.table.remote.keys import BUCKETS
from framework.table.remote.log import Durability
from framework.table.remote.reshard import take_over
from framework.table.remote.secure import read_key
from framework.table.remote.server import Server
from framework.table.remote.shard import Shard
from framework.table.table import Table


@dataclass(frozen=True)
class ShardSpec:
    """What a shard is started with; plain data.

    Args:
        folder: of checkpoint and log.
        share: first and last bucket.
        table: `Table.config()` of the table.
        announce: a file that says where it listens, once it does.
        dense: dense numbers of the whole model.
        tag: of the model.
        limit: rows that the whole table may hold, and what happens then; None for any number.
        sources: folders of the shards before it, where the buckets were dealt out anew.
        host: to listen at, and to be found at.
        durability: of the log.
        checkpoint_bytes, checkpoint_seconds: see `Server`.
        threads: that compute.
        key: the file with the job's key, that clients must have; None for none.
    """

    folder: str
    share: tuple[int, int]
    table: dict[str, Any]
    announce: str
    dense: int = 0
    tag: str = ""
    limit: dict[str, Any] | None = None
    sources: list[str] = field(default_factory=list)
    host: str = "127.0.0.1"
    durability: dict[str, Any] = field(default_factory=dict)
    checkpoint_bytes: int = 1 << 30
    checkpoint_seconds: float = 300.0
    threads: int | None = None
    key: str | None = None

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> ShardSpec:
        """From JSON."""
        told = json.loads(text)
        return cls(**{**told, "share": tuple(told["share"])})

    def new_table(self) -> Table:
        """An empty table; one that evicts has its whole limit, as each bucket has an equal part of that."""
        limit = None if self.limit is None else Limit(**self.limit)
        if limit is not None and limit.when_full == "error":
            share = (self.share[1] - self.share[0]) / BUCKETS
            parts = {name: max(1, int(n * share)) for name in ("rows", "bytes") if (n := getattr(limit, name))}
            limit = Limit(rows=parts.get("rows"), bytes=parts.get("bytes"))
        arguments = files.arguments_from(self.table, "shard")
        return Table(**arguments, limit=limit, buckets=BUCKETS)

    def open(self) -> Shard:
        """The shard with what its folder holds, or else what `sources` do."""
        folder = Path(self.folder)
        known = (folder / store.MANIFEST).is_file()
        shard = Shard(
            folder,
            self.new_table(),
            self.share,
            dense=self.dense,
            tag=self.tag,
            durability=Durability(**self.durability),
        )
        if not known and self.sources:
            take_over(shard, [Path(source) for source in self.sources], self.new_table, self.tag)
        elif not known:
            shard.checkpoint(base=True)
        return shard


def serve(spec: ShardSpec, ready: Callable[[Server], None] = lambda server: None) -> None:
    """Open a shard, say where it is, and answer until it is stopped."""
    if spec.threads is not None:
        framework.set_num_threads(spec.threads)
    shard = spec.open()
    server = Server(
        shard,
        f"tcp://{spec.host}:*",
        checkpoint_bytes=spec.checkpoint_bytes,
        checkpoint_seconds=spec.checkpoint_seconds,
        key=read_key(spec.key),
    )
    make_folder(Path(spec.announce).parent)
    write_text(Path(spec.announce), json.dumps({"address": server.address, "pid": os.getpid()}) + "\n")
    ready(server)
    server.run()


def announced(path: Path) -> str | None:
    """Where the shard is that announces itself in a file; None where it does not yet."""
    try:
        return str(read_json(path)["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def end_with_parent(stop: Callable[[], None]) -> None:
    """Call `stop` when standard input ends: the process that holds its other end is gone."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        stop()

    threading.Thread(target=watch, name="paddock-parent", daemon=True).start()


def main(words: list[str]) -> int:
    """Run the shard that a file describes; the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    spec = ShardSpec.of(Path(words[-1]).read_text(encoding="utf-8"))

    def ready(server: Server) -> None:
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the head of the run ends it
        if "--with-parent" in words:
            end_with_parent(server.stop)

    try:
        serve(spec, ready)
    except PaddockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
