"""Publishing the rows of all shards as one file, while pushes go on: the shard's side, and the side of who writes.

A publication begins with a cut on each shard. Rows that change later are in the next one. Then the rows that changed
since the cut before are asked for, some buckets at a time, and written as they come; a shard sends bytes as they lie in
the file. So the writer alone needs to reach the folder, and a row goes over the network once and to the disk once.

A shard knows the cuts of the last two publications by their ids. Which of the two the next one follows says whether the
last one was completed, so nobody has to tell the shard. A shard that was started since knows none: `ChainBrokenError`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.errors import AttributeValueError, StateError
from framework.table import snapshot
from framework.table.files import forget_old_removals
from framework.table.remote.keys import unique
from framework.table.remote.wire import ID_BYTES, ChainBrokenError
from framework.table.state import Chain
from framework.table.table import Table
from framework.tensors import Tensor, from_numpy

if TYPE_CHECKING:
    from framework.table.remote.client import ShardClient

_ROWS_AT_ONCE = 1 << 16  # that a shard looks at for one answer: pulls wait meanwhile
_AHEAD = 2  # answers of each shard that are on their way


class Cuts:
    """What a shard knows of publications.

    Args:
        table: of the shard.
        share: its buckets.
        saving: held by whoever writes files of the table.
    """

    def __init__(self, table: Table, share: tuple[int, int], saving: threading.Lock) -> None:
        self._table, self._share, self._saving = table, share, saving
        self._versions: dict[str, int] = {}  # by id: of the last publication, and of the one that it follows

    def begin(self, ids: np.ndarray) -> None:
        """Begin a publication: `ids` uint8 [32] are its own and that of the one it follows, zeros for none.

        One that is begun already stays as it is: it is asked again, because the answer was lost.

        Raises ChainBrokenError where the one before is not known.
        """
        own, before = _split(ids)
        if own in self._versions:
            return
        known = {before: self._version(before)} if before else {}
        native = self._table._native
        native.forget_removals(0)  # removals are noted from before the first row is read
        self._versions = {**known, own: native.cut()}
        oldest = min(self._versions, key=lambda name: self._versions[name])
        self._table.published = Chain(oldest, self._versions[oldest], self._table.passes)
        if self._saving.acquire(blocking=False):  # files that are being written will ask for older removals
            try:
                forget_old_removals(self._table)
            finally:
                self._saving.release()

    def rows(self, ids: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keys int64 [n] and packed rows uint8 [n, bytes] that changed between two publications, or later.

        Args:
            ids: see `begin`.
            where: int64 [3]: first bucket, the one behind the last, number of the type in `ROW_TYPES`.
        """
        first, last, kind = map(int, where)
        if not self._share[0] <= first < last <= self._share[1] or not 0 <= kind < len(snapshot.ROW_TYPES):
            raise StateError(f"shard: rows of buckets {first} to {last - 1}, type {kind}: are not here")
        return snapshot.changed_rows(self._table, first, last, self._since(ids), snapshot.ROW_TYPES[kind])

    def gone(self, ids: np.ndarray) -> np.ndarray:
        """Keys int64 whose rows went since the publication that this one follows."""
        return snapshot.removed(self._table, self._since(ids))

    def _since(self, ids: np.ndarray) -> int:
        own, before = _split(ids)
        self._version(own)
        return self._version(before) if before else 0

    def _version(self, name: str) -> int:
        if name not in self._versions:
            raise ChainBrokenError(
                f"shard: does not know publication {name}: this process was started since; publish all rows"
            )
        return self._versions[name]


class ShardRows:
    """The rows of all shards, as a `Table` of one machine publishes its own and looks them up.

    Args:
        client: of the shards.
        name: of the table.

    Attributes:
        published: the last file written, which a delta follows; None where all rows have to be written.
    """

    def __init__(self, client: ShardClient, name: str) -> None:
        self._client, self.name, self.dim = client, name, client.dim
        self.published: Chain | None = None

    def snapshot(self, path: Path | str, dtype: str = "float32", *, delta: bool = False) -> str:
        """Write all rows, or those that changed since the last file, as `framework.table.snapshot.write` does.

        Rows may be pushed meanwhile: each is as it was when it was read, and what changes later is in the next delta.

        Raises:
            ChainBrokenError: a shard was started since the last file, or meanwhile; write all rows.
            CheckpointError: the file cannot be written.
        """
        if dtype not in snapshot.ROW_TYPES:
            known = ", ".join(snapshot.ROW_TYPES)
            raise AttributeValueError(f"snapshot: dtype is {dtype!r}; it must be one of {known}")
        before = self.published.id if delta and self.published is not None else None
        identity = snapshot.new_id()
        ids = np.frombuffer(bytes.fromhex(identity + (before or "0" * 2 * ID_BYTES)), np.uint8)
        try:
            self._client.cut(ids)
            parts = self._parts(ids, snapshot.ROW_TYPES.index(dtype))
            about = (self.name, self.dim, dtype)
            snapshot.write_parts(path, about, (identity, before), parts, lambda: self._client.gone(ids))
        except ChainBrokenError:
            self.published = None
            raise
        self.published = Chain(identity, 0, 0)
        return identity

    def lookup(self, keys: Tensor | np.ndarray, clicks: object = None) -> Tensor:
        """Rows float32 [*keys.shape, dim] as they are now; zeros for a key without one."""
        given = keys.numpy() if isinstance(keys, Tensor) else keys
        found = unique(given)
        rows = self._client.pull(found)().copy()
        rows[self._client.counts(found)[:, 0] < 0] = 0.0
        return from_numpy(rows[found.inverse.ravel()].reshape(*given.shape, self.dim))

    def _parts(self, ids: np.ndarray, kind: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Answers in the order of their questions, of all shards in turn, some asked for in advance."""
        waiting: deque[Any] = deque()
        for first, last in self._ranges():
            waiting.append(self._client.rows(ids, first, last, kind))
            if len(waiting) > _AHEAD * len(self._client.shares):
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Buckets to ask for at a time: of each shard in turn."""
        each = []
        for (first, last), stats in zip(self._client.shares, self._client.stats(), strict=True):
            width = max(1, _ROWS_AT_ONCE * (last - first) // max(stats["rows"], 1))
            each.append([(at, min(at + width, last)) for at in range(first, last, width)])
        for turn in range(max(map(len, each))):
            yield from (ranges[turn] for ranges in each if turn < len(ranges))


def _split(ids: np.ndarray) -> tuple[str, str]:
    """The publication's own id, and that of the one it follows; "" for none."""
    own, before = ids[:ID_BYTES].tobytes(), ids[ID_BYTES:].tobytes()
    return own.hex(), before.hex() if any(before) else ""
