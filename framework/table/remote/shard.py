"""Shard: some buckets of a table and the dense numbers that belong to them, with every push taken exactly once.

A push has a worker, an incarnation and a number. For each worker and bucket the shard knows the number of the last push
that is in it. That one array decides everything: a push that comes again, whether sent again by a trainer, read from
the log after a crash or met again after the buckets were dealt out anew, changes only those buckets that lack it.

A push is applied, written to the log, and then acknowledged. Checkpoints are taken while pushes go on: each range of
buckets is read between two pushes, with the numbers of the pushes that are in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import remove_folder
from framework.errors import CheckpointError, NotSupportedError, NumericsError, StateError
from framework.table import files
from framework.table.remote import store
from framework.table.remote.keys import BUCKETS, bucket_of, chunks
from framework.table.remote.log import Durability, UpdateLog, read
from framework.table.remote.publication import Cuts
from framework.table.remote.wire import Header, Kind, SupersededError, arrays_of, model_key
from framework.table.rules import DenseAdam
from framework.table.table import Table
from framework.tensors import Tensor, from_numpy

PASSES = (1 << 63) - 1  # the worker that ends passes


@dataclass(frozen=True)
class Gap:
    """A push was to be `expected`, and a later one came: one before it was lost on the way."""

    expected: int


def described(table: Table, dense: int, tag: str = "") -> bytes:
    """The model key of a table with `dense` numbers beside it; `tag` tells models apart that have equal tables."""
    config = table.config()
    told = {name: config[name] for name in ("name", "dim", "init", "seed", "rule", "admission")}
    return model_key({**told, "dense": dense, "buckets": BUCKETS, "tag": tag})


class Shard:
    """Buckets [first, last) of a table, in a folder of their own.

    Args:
        folder: of checkpoint and log; one process at a time has it.
        table: empty, of 256 buckets; its rows are this shard's alone.
        share: first and last bucket.
        dense: how many dense numbers the whole model has; a shard holds its buckets' chunks of them.
        tag: see `described`.
        durability: of the log.

    Attributes:
        dense: the dense numbers of its chunks, float32; None until `start` or a checkpoint gave some.
        pushes: how many were taken by this process, and `repeated`, how many came again.
        failed: why nothing is taken any more: the log could not be written. Who runs the shard ends it and starts
            another.

    What the folder holds is taken up: checkpoint, then log. Raises CheckpointError where that is damaged or another
    model's, StateError where another process has the folder.
    """

    def __init__(
        self,
        folder: Path | str,
        table: Table,
        share: tuple[int, int],
        *,
        dense: int = 0,
        tag: str = "",
        durability: Durability = Durability(),  # noqa: B008  (frozen)
        writable: bool = True,
    ) -> None:
        if isinstance(table.rule, DenseAdam):
            raise NotSupportedError(
                f"table '{table.name}': DenseAdam counts the steps of the whole table, which shards do not share; use "
                "Adam"
            )
        if table._native.buckets != BUCKETS:
            raise StateError(f"table '{table.name}': has {table._native.buckets} buckets; a shard needs {BUCKETS}")
        self.folder, self.table, self.share = Path(folder), table, share
        self.model, self.size = described(table, dense, tag), dense
        self._bounds = chunks(dense)
        self.dense: np.ndarray | None = None if dense else np.zeros(0, np.float32)
        self.floor = 0  # workers below it have finished
        self.pushes = self.repeated = 0
        self.failed: StateError | None = None
        self.seen: dict[int, np.ndarray] = {}  # by worker: the last push of each bucket, int64 [B]
        self.incarnations: dict[int, int] = {}
        self._lock, self._saving = threading.RLock(), threading.Lock()
        self.cuts = Cuts(table, share, self._saving)  # of publications
        self._owner = store.own(self.folder, writable)
        number = self._recover(writable)
        self.log = UpdateLog(self.folder, self.model, number, durability) if writable else None

    # -- what is asked
    def hello(self, worker: int, incarnation: int) -> int:
        """From now on only this incarnation of a worker may push; returns the number of its next push."""
        with self._lock:
            self._expect_current(worker, incarnation)
            if self.incarnations.get(worker) != incarnation:
                self._write(Header(Kind.HELLO, model=self.model, worker=worker, incarnation=incarnation), [])
                self.incarnations[worker] = incarnation
            return self.next_of(worker)

    def next_of(self, worker: int) -> int:
        """The number of a worker's next push."""
        return int(self._seen(worker)[slice(*self.share)].min()) + 1

    def pull(self, keys: np.ndarray) -> np.ndarray:
        """Rows float32 [U, dim] of keys int64 [U]; a key without a row reads as the one that its first push makes."""
        self._expect_own(keys)
        rows: np.ndarray = Tensor(self.table._native.lookup(from_numpy(keys).array(), True)).numpy()
        return rows

    def counts(self, keys: np.ndarray) -> np.ndarray:
        """See `Table.counts`."""
        self._expect_own(keys)
        return self.table.counts(keys)

    def push(self, header: Header, arrays: Sequence[np.ndarray]) -> Gap | None:
        """Take one push: keys int64 [U], gradients float32 [U, dim], shows and clicks float32 [U], dense float32 [m].

        The dense numbers are added to the shard's own; none or all of them are sent.

        Returns None where it is taken, now or before, and a `Gap` where one before it is missing.

        Raises SupersededError from a process that another one has replaced, StateError for keys of other buckets or
        where the log or the table is full, NumericsError for numbers that are not finite. Nothing is changed then.
        """
        with self._lock:
            self._expect_current(header.worker, header.incarnation)
            self._expect_fitting(header, arrays)
            expected = self.next_of(header.worker)
            if header.sequence > expected:
                return Gap(expected)
            if not self._apply_push(header, arrays):
                self.repeated += 1
                return None
            self._write(header, arrays)
            self.pushes += 1
            return None

    def start(self, numbers: np.ndarray) -> np.ndarray:
        """Begin with these dense numbers, unless there are some already; returns those that count."""
        with self._lock:
            if self.dense is None:
                if numbers.size != self.dense_count:
                    raise StateError(f"shard: {numbers.size} dense numbers; its share is {self.dense_count}")
                if not np.isfinite(numbers).all():
                    raise NumericsError("shard: dense numbers to begin with are not finite; nothing is changed")
                self._write(Header(Kind.START, model=self.model, dense=numbers.size), [numbers])
                self.dense = numbers.copy()
            return self.dense

    def end_pass(self, number: int, floor: int) -> int:
        """The end of pass `number`, from 1: counters decay and rows go; workers below `floor` are done.

        Returns how many rows went; 0 where it has been ended before. A checkpoint that is being taken is waited for.
        """
        header = Header(Kind.PASS, model=self.model, worker=PASSES, incarnation=floor, sequence=number)
        with self._saving, self._lock:
            gone = self._apply_pass(header)
            if gone is None:
                return 0
            self._write(header, [])
            return gone

    # -- files
    def checkpoint(self, *, base: bool = False) -> None:
        """Write what changed since the last checkpoint, or everything; then the log begins anew.

        Pushes go on meanwhile; each waits at most while one file's buckets are read into memory.
        """
        assert self.log is not None
        with self._saving:
            with self._lock:
                number = self.log.rotate()
            taken = store.Taken(self.share, self._bounds)
            try:
                name = store.save_table(self.folder, self.table, self._around(taken), base=base)
                with self._lock:
                    state = taken.state(self.incarnations, self.floor)
                store.switch(self.folder, self._about(), name, state, number)
            except BaseException:
                self.table.chain = None  # what was written does not count, so nothing may follow it
                raise
            self.log.remove_before(number)

    def save(self, path: Path | str) -> None:
        """Write all rows as a base of their own that any table reads; the shard's own files stay as they are.

        A base that is there already is replaced: it is of the same request, whose answer was lost.
        """
        with self._saving:
            if (Path(path) / files.MANIFEST).is_file():
                remove_folder(Path(path))
            self.table.save(path)
            self.table.chain = None  # the shard's next checkpoint follows no files but its own

    def commit(self) -> None:
        """Bring the log to disk where its durability asks for it; to be called before acknowledging."""
        if self.log is not None:
            self.log.commit()

    def close(self) -> None:
        """Close the log and let others have the folder."""
        if self.log is not None:
            self.log.close()
        self._owner.close()

    @property
    def dense_count(self) -> int:
        """How many dense numbers it holds."""
        first, last = self.share
        return int(self._bounds[last] - self._bounds[first])

    # -- inside
    def _seen(self, worker: int) -> np.ndarray:
        return self.seen.get(worker, store.NOTHING_SEEN)

    def _expect_current(self, worker: int, incarnation: int) -> None:
        if self.failed is not None:
            raise self.failed
        known = self.incarnations.get(worker, 0)
        if incarnation < known or worker < self.floor:
            why = f"its place has been taken by incarnation {known}" if incarnation < known else "its pass has ended"
            raise SupersededError(f"shard: worker {worker}, incarnation {incarnation}: {why}; it has to stop")

    def _expect_own(self, keys: np.ndarray) -> np.ndarray:
        buckets = bucket_of(keys)
        if keys.size and not self.share[0] <= int(buckets.min()) <= int(buckets.max()) < self.share[1]:
            raise StateError(
                f"shard: has buckets {self.share[0]} to {self.share[1] - 1}, and a key of another one came; the sender "
                "knows another division into shards"
            )
        return buckets

    def _expect_fitting(self, header: Header, arrays: Sequence[np.ndarray]) -> None:
        keys, *numbers = arrays
        self._expect_own(keys)
        if header.dense not in (0, self.dense_count) or (header.dense and self.dense is None):
            raise StateError(
                f"shard: {header.dense} dense numbers came; its share is {self.dense_count}"
                f"{', and it was not told where to begin' if self.dense is None else ''}"
            )
        if not (np.isfinite(header.lr) and all(np.isfinite(part).all() for part in numbers)):
            raise NumericsError(
                f"shard: push {header.sequence} of worker {header.worker} has NaN or infinite numbers; none was taken"
            )

    def _apply_push(self, header: Header, arrays: Sequence[np.ndarray]) -> bool:
        """Whether any bucket lacked it."""
        first, last = self.share
        seen = self._seen(header.worker)
        lacks = seen < header.sequence
        if not lacks[first:last].any():
            return False
        keys, grads, shows, clicks, dense = arrays
        if not lacks[first:last].all():
            mine = lacks[bucket_of(keys)]
            keys, grads, shows, clicks = keys[mine], grads[mine], shows[mine], clicks[mine]
            if dense.size:
                dense = np.where(self._spread(lacks), dense, np.float32(0))
        native = [from_numpy(np.ascontiguousarray(part)).array() for part in (keys, grads, shows, clicks)]
        self.table._native.push(*native, header.lr)
        if dense.size and self.dense is not None:
            self.dense += dense
        self._mark(header.worker, header.sequence, lacks)
        return True

    def _spread(self, lacks: np.ndarray) -> np.ndarray:
        """Of each dense number, whether its bucket is marked."""
        first, last = self.share
        return np.repeat(lacks[first:last], np.diff(self._bounds[first : last + 1]))

    def _mark(self, worker: int, sequence: int, lacks: np.ndarray) -> None:
        seen = self.seen.setdefault(worker, store.NOTHING_SEEN.copy())
        here = slice(*self.share)
        seen[here][lacks[here]] = sequence

    def _apply_pass(self, header: Header) -> int | None:
        """How many rows went; None where no bucket lacked it."""
        first, last = self.share
        lacks = self._seen(PASSES) < header.sequence
        due = np.flatnonzero(lacks[first:last]) + first
        self.floor = max(self.floor, header.incarnation)
        for worker in [w for w in self.seen if w < self.floor]:
            del self.seen[worker]
        self.incarnations = {w: i for w, i in self.incarnations.items() if w >= self.floor}
        if not due.size:
            return None
        gone = 0
        if self.table.eviction is not None:
            gone = sum(self.table._native.shrink(int(b), int(b) + 1) for b in due)
            if due.size < last - first:
                self.table.chain = None  # a delta would age all other buckets as well
        self.table.passes += 1
        self._mark(PASSES, header.sequence, lacks)
        return gone

    def _write(self, header: Header, arrays: Sequence[np.ndarray]) -> None:
        """Log what was applied; where that fails nothing is taken any more, as memory is ahead of the log."""
        if self.log is None:
            raise StateError(f"{self.folder}: is open for reading only")
        try:
            self.log.append([header.packed(), *arrays])
        except StateError as error:
            self.failed = error
            raise

    def _about(self) -> store.About:
        return store.About(self.model, self.share, self.size, self.table.config())

    @contextmanager
    def _take(self, taken: store.Taken, first: int, last: int) -> Iterator[None]:
        with self._lock:
            yield
            taken.note(first, last, self.seen, self.dense)

    def _around(self, taken: store.Taken) -> Any:
        return lambda first, last: self._take(taken, first, last)

    def _recover(self, writable: bool) -> int:
        """Take up what the folder holds; returns the number of the log file to begin."""
        found = store.load(self.folder, self._about(), self.table)
        if found is not None:
            self.seen, self.incarnations, self.floor = found.seen, found.incarnations, found.floor
            self.dense = found.dense if found.dense is not None else self.dense
        since = found.log if found is not None else 1
        for record in read(self.folder, self.model, since, cut=writable):
            self._replay(record)
        return store.next_log(self.folder, since)

    def _replay(self, record: bytes) -> None:
        try:
            header = Header.unpacked(record[: Header.LAYOUT.size])
            arrays = arrays_of(header, _split(header, memoryview(record)[Header.LAYOUT.size :]))
        except StateError as error:
            raise CheckpointError(f"{self.folder}: the log holds a record that cannot be read ({error})") from None
        if header.kind == Kind.PUSH:
            self._apply_push(header, arrays)
        elif header.kind == Kind.PASS:
            self._apply_pass(header)
        elif header.kind == Kind.START and self.dense is None:
            self.dense = arrays[0].copy()
        if header.kind in (Kind.PUSH, Kind.HELLO) and header.worker >= self.floor:
            known = self.incarnations.get(header.worker, 0)
            self.incarnations[header.worker] = max(known, header.incarnation)


def _split(header: Header, data: memoryview) -> list[memoryview]:
    """The arrays of a record, which lie end to end."""
    found, at = [], 0
    for _, dtype, shape in header.shapes():
        size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        found.append(data[at : at + size])
        at += size
    return found
