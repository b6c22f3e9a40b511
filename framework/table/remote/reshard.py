"""Dealing the buckets of a table out anew: a shard takes what it needs from the folders of the shards before it.

Buckets move whole, with the numbers of the pushes that are in them, so nothing has to be at rest: what was sent and not
acknowledged is sent again to the new shards, which take exactly what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.table.remote import store
from framework.table.remote.keys import chunks, covers
from framework.table.remote.shard import Shard
from framework.table.table import Table


def take_over(shard: Shard, folders: Sequence[Path], new_table: Callable[[], Table], tag: str = "") -> None:
    """Fill an empty shard from shards that no process holds any more, and take a checkpoint.

    Args:
        shard: of any share.
        folders: of all shards before it; they stay as they are.
        new_table: makes an empty table as the shards' are.
        tag: of the model.

    Raises CheckpointError where a folder is damaged, of another model, or one is missing; StateError where a process
    still has one.
    """
    held = [(folder, store.share_of(folder)) for folder in folders]
    if not covers([share for _, share in held]):
        raise CheckpointError(f"shards: {', '.join(map(str, folders))} do not hold every bucket once; name them all")
    dense = np.zeros(shard.dense_count, np.float32)
    started = False
    for folder, share in held:
        first, last = max(share[0], shard.share[0]), min(share[1], shard.share[1])
        if first >= last:
            continue
        old = Shard(folder, new_table(), share, dense=shard.size, tag=tag, writable=False)
        try:
            _take_rows(shard.table, old.table, first, last)
            _take_pushes(shard, old, first, last)
            if old.dense is not None:
                bounds = chunks(shard.size)
                to, of = bounds[shard.share[0]], bounds[share[0]]
                dense[bounds[first] - to : bounds[last] - to] = old.dense[bounds[first] - of : bounds[last] - of]
                started = True
        finally:
            old.close()
    if started:
        shard.dense = dense
    shard.checkpoint(base=True)


def _take_rows(to: Table, of: Table, first: int, last: int) -> None:
    for bucket in range(first, last):
        to._native.write_rows(*of._native.read_rows(bucket, bucket + 1, 0, False))
        to._native.write_candidates(*of._native.read_candidates(bucket, bucket + 1))
    to.passes = max(to.passes, of.passes)


def _take_pushes(to: Shard, of: Shard, first: int, last: int) -> None:
    for worker, pushes in of.seen.items():
        to.seen.setdefault(worker, store.NOTHING_SEEN.copy())[first:last] = pushes[first:last]
    for worker, incarnation in of.incarnations.items():
        to.incarnations[worker] = max(to.incarnations.get(worker, 0), incarnation)
    to.floor = max(to.floor, of.floor)
