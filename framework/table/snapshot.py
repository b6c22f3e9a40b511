"""Published tables: one file with an index and rows, which serving maps into memory and swaps without a pause.

A file begins with `PADTABLE`, the format's number and the length of a JSON header (little-endian, 4 bytes each), the
SHA-256 of that header (32 bytes) and the header; rows and index follow at the places that it names. A base holds all
rows, a delta those that changed since the files before it and the keys that went.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework import _core
from framework.atomic import atomic_file
from framework.errors import AttributeValueError, CheckpointError, PaddockError, StateError
from framework.forks import free_in_child
from framework.remedies import refusal
from framework.table.files import forget_old_removals
from framework.table.state import Chain, TableState
from framework.tensors import Tensor, from_numpy

MAGIC = b"PADTABLE"
FORMAT = 1
ROW_TYPES = ("float32", "float16", "int8")
_PREFIX = struct.Struct("<8sII32s")
_PAGE = 4096
_MOST_HEADER = 1 << 16
_TOGETHER = 16  # buckets that are read at a time, by all threads


@dataclass(frozen=True)
class SnapshotHeader:
    """What a published file says of itself.

    Attributes:
        name: of the table.
        id: of this version.
        parent: the version that a delta follows; None for a base.
        dim: columns of a row.
        dtype: of its rows: float32, float16, or int8 (codes between each row's least and largest value).
        rows: how many it holds.
        removed: keys that a delta takes away.
        slots: of the index.
        rows_at: where rows begin, in bytes.
        index_at: where the index begins.
        bytes: of the file.
    """

    name: str
    id: str
    parent: str | None
    dim: int
    dtype: str
    rows: int
    removed: int
    slots: int
    rows_at: int
    index_at: int
    bytes: int


def write(table: TableState, path: Path | str, dtype: str = "float32", *, delta: bool = False) -> str:
    """Publishes a table's rows as the file `path`, which appears whole or not at all; returns the version's id.

    Steps that rows missed (`DenseAdam`) are made up for in what is written.

    Args:
        table: the table.
        path: of the file; one that is there is replaced, and who has it mapped keeps the old one.
        dtype: of the rows. float16 rounds to 11 bits; int8 is off by at most 1/510 of a row's range.
        delta: only what changed since this table's last snapshot.

    Raises:
        AttributeValueError: dtype is none of the three.
        CheckpointError: there is no snapshot before a delta, or the file cannot be written.
        StateError: a row cannot be held by the type (int8: a value that is not finite).
    """
    if dtype not in ROW_TYPES:
        raise AttributeValueError(f"snapshot: dtype is {dtype!r}; it must be one of {', '.join(ROW_TYPES)}")
    before = table.published
    if delta and before is None:
        raise CheckpointError(f"table '{table.name}': a delta snapshot needs a whole one before it")
    native = table._native
    native.forget_removals(0)  # removals are noted from before the first row is read
    since = before.version if delta and before else 0
    version = native.cut()
    identity = new_id()
    follows = before.id if delta and before else None

    def parts() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, native.buckets, _TOGETHER):
            yield changed_rows(table, first, min(first + _TOGETHER, native.buckets), since, dtype)

    write_parts(path, (table.name, table.dim, dtype), (identity, follows), parts(), lambda: removed(table, since))
    table.published = Chain(identity, version, table.passes)
    forget_old_removals(table)
    return identity


def new_id() -> str:
    """The id of a version that is about to be written: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def changed_rows(table: TableState, first: int, last: int, since: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Keys int64 [n] and packed rows uint8 [n, bytes of a row] of buckets [first, last), changed after cut `since`."""
    keys, values, *_ = table._native.read_rows(first, last, since, True, values_only=True)
    return Tensor(keys).numpy(), Tensor(_core.pack_rows(values, dtype)).numpy()


def removed(table: TableState, since: int) -> np.ndarray:
    """Keys int64 whose rows went after cut `since`; none for 0, as a base names none."""
    return Tensor(table._native.removed(since)).numpy() if since else np.zeros(0, np.int64)


def write_parts(
    path: Path | str,
    about: tuple[str, int, str],
    ids: tuple[str, str | None],
    parts: Iterable[tuple[np.ndarray, np.ndarray]],
    gone: Callable[[], np.ndarray],
) -> None:
    """Write a file of rows that come part by part; it appears whole or not at all.

    Args:
        path: of the file.
        about: name of the table, columns and type of its rows.
        ids: of the version, and of the one that it follows as a delta.
        parts: keys int64 [n] and packed rows [n, bytes], each key once.
        gone: asked behind the last part: keys that went; one that is among the parts came back.

    Raises:
        CheckpointError: the file cannot be written.
    """
    name, dim, dtype = about
    try:
        with atomic_file(Path(path)) as part, part.open("wb") as file:
            file.seek(_PAGE)
            keys = [np.zeros(0, np.int64)]
            for own, rows in parts:
                file.write(rows.data)
                keys.append(own)
            file.write(b"\0" * (-file.tell() % _PAGE))
            index_at = file.tell()
            every = np.concatenate(keys)
            lost = _without(np.unique(gone()), every)
            index = Tensor(_core.pack_index(from_numpy(every).array(), from_numpy(lost).array())).numpy()
            file.write(index.data)
            header = SnapshotHeader(
                name=name,
                id=ids[0],
                parent=ids[1],
                dim=dim,
                dtype=dtype,
                rows=len(every),
                removed=len(lost),
                slots=len(index) // 16,
                rows_at=_PAGE,
                index_at=index_at,
                bytes=file.tell(),
            )
            text = json.dumps(header.__dict__).encode()
            file.seek(0)
            file.write(_PREFIX.pack(MAGIC, FORMAT, len(text), hashlib.sha256(text).digest()) + text)
    except OSError as e:
        raise CheckpointError(f"{path}: the snapshot cannot be written ({refusal(e)})") from e


def _without(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Different keys, ascending, without those among many others; `np.setdiff1d` would sort the others."""
    if not len(keys):
        return keys
    places = np.minimum(np.searchsorted(keys, others), len(keys) - 1)
    found: np.ndarray = np.delete(keys, places[keys[places] == others])
    return found


def read_header(path: Path | str) -> SnapshotHeader:
    """The checked header of a published file.

    Raises:
        CheckpointError: the file is missing, cut, damaged or no snapshot.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            prefix = file.read(_PREFIX.size)
            size = path.stat().st_size
            if len(prefix) < _PREFIX.size or prefix[:8] != MAGIC:
                raise CheckpointError(f"{path}: is no snapshot of a table")
            _, number, length, digest = _PREFIX.unpack(prefix)
            if number != FORMAT:
                raise CheckpointError(f"{path}: is a snapshot in format {number}; this version reads {FORMAT}")
            text = file.read(min(length, _MOST_HEADER))
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be read ({e.strerror or e})") from None
    if len(text) != length or hashlib.sha256(text).digest() != digest:
        raise CheckpointError(f"{path}: its header is cut or damaged; publish it again")
    try:
        header = SnapshotHeader(**json.loads(text))
        numbers = (header.dim, header.rows, header.removed, header.slots, header.rows_at, header.index_at, header.bytes)
        good = all(type(n) is int and 0 <= n < 2**62 for n in numbers) and header.dim > 0 and header.dtype in ROW_TYPES
    except (TypeError, ValueError, RecursionError):
        good = False
    if not good:
        raise CheckpointError(f"{path}: its header describes no rows; it was written by something else")
    if header.bytes != size:
        raise CheckpointError(f"{path}: has {size} bytes, its header says {header.bytes}; it is cut, copy it again")
    return header


class TableSnapshot:
    """A published table for look-ups: maps files, copies nothing, changes versions between two look-ups.

    >>> served = TableSnapshot.open("signs.base")
    >>> rows = served.lookup(keys)
    >>> served.apply("signs.delta")  # readers in other threads see the old version or the new one, never a mixture

    Attributes:
        header: of the newest file: name, dim, version.
        missed: keys looked up that had no row, since it was opened.
        looked_up: keys looked up.
    """

    def __init__(self, path: Path | str, *, name: str | None = None) -> None:
        """Maps a base; `name`: of the table that it has to be.

        Raises:
            CheckpointError: see `read_header`; or the file is a delta, or of another table.
        """
        self._lock = threading.Lock()  # of changes and counters; look-ups take a version and keep it
        free_in_child(self)
        self.missed = self.looked_up = 0
        self._name = name
        self._set(*self._base(path))

    @classmethod
    def open(cls, path: Path | str, deltas: Sequence[Path | str] = (), *, name: str | None = None) -> TableSnapshot:
        """Maps a base and the deltas that follow it."""
        opened = cls(path, name=name)
        for delta in deltas:
            opened.apply(delta)
        return opened

    @property
    def dim(self) -> int:
        """Columns of a row."""
        return self.header.dim

    @property
    def version(self) -> str:
        """The id of the newest file."""
        return self.header.id

    @property
    def current(self) -> SnapshotVersion:
        """What answers now, which never changes."""
        return self._current

    def lookup(self, keys: Any, *, at: SnapshotVersion | None = None) -> np.ndarray:
        """Rows by key: float32 [*keys.shape, dim]; zeros for a key without a row, which `missed` counts.

        Args:
            keys: 64-bit, any shape.
            at: the version that answers, an earlier `current`; by default the newest.

        Raises:
            CheckpointError: a file was cut in its place, or its disk failed; `swap` to a whole one.
        """
        rows, _ = self._lookup(keys, at or self._current)
        return rows

    def lookup_with_version(self, keys: Any) -> tuple[np.ndarray, str]:
        """Rows, and the id of the version that all of them come from."""
        return self._lookup(keys, self._current)

    def _lookup(self, keys: Any, version: SnapshotVersion) -> tuple[np.ndarray, str]:
        array = np.ascontiguousarray(keys)
        array = array.view(np.int64) if array.dtype == np.uint64 else array
        try:
            rows, missed = version.native.lookup(from_numpy(array).array())
        except StateError as e:
            raise CheckpointError(str(e)) from None
        with self._lock:
            self.missed += missed
            self.looked_up += array.size
        return Tensor(rows).numpy(), version.header.id

    def apply(self, path: Path | str) -> None:
        """Takes up a delta that follows the newest version.

        Raises:
            CheckpointError: it is a base, of another table, or follows another version; nothing has changed.
        """
        header = read_header(path)
        with self._lock:
            now = self._current
            self._expect_table(path, header)
            if header.parent is None:
                raise CheckpointError(f"{path}: is a whole snapshot, not a delta; use swap()")
            if header.parent != now.header.id:
                raise CheckpointError(
                    f"{path}: this delta follows version {header.parent}, but version {now.header.id} is served; apply "
                    "the deltas between them first, or swap() to a newer whole snapshot"
                )
            self._set(header, [_map(path, header), *now.files])

    def swap(self, path: Path | str, deltas: Sequence[Path | str] = ()) -> None:
        """Changes to another whole snapshot of the same table and the deltas that follow it.

        Raises:
            CheckpointError: see `apply`; the version that was served stays.
        """
        other = TableSnapshot.open(path, deltas, name=self.header.name)
        if other.dim != self.dim:
            raise CheckpointError(f"{path}: its rows have {other.dim} columns, those that are served {self.dim}")
        with self._lock:
            self._set(other.header, other._current.files)

    def _base(self, path: Path | str) -> tuple[SnapshotHeader, list[Any]]:
        header = read_header(path)
        if header.parent is not None:
            raise CheckpointError(f"{path}: is a delta of version {header.parent}; open the whole snapshot first")
        if self._name is not None and header.name != self._name:
            raise CheckpointError(f"{path}: is of table '{header.name}', not of '{self._name}'")
        return header, [_map(path, header)]

    def _expect_table(self, path: Path | str, header: SnapshotHeader) -> None:
        own = self.header
        if (header.name, header.dim) != (own.name, own.dim):
            raise CheckpointError(
                f"{path}: is of table '{header.name}' with {header.dim} columns, not of '{own.name}' with {own.dim}"
            )

    def _set(self, header: SnapshotHeader, files: list[Any]) -> None:
        self._current = SnapshotVersion(header, files, _core.Snapshot(files))

    @property
    def header(self) -> SnapshotHeader:
        """Of the newest file."""
        return self._current.header


@dataclass(frozen=True)
class SnapshotVersion:
    """Files that answer together: the newest first."""

    header: SnapshotHeader
    files: list[Any]
    native: Any

    @property
    def lost(self) -> bool:
        """Whether a file was cut in its place, or its disk failed: its look-ups are errors for good."""
        return self.native.lost


def _map(path: Path | str, header: SnapshotHeader) -> Any:
    try:
        return _core.SnapshotFile(
            str(path), header.index_at, header.slots, header.rows_at, header.rows, header.dim, header.dtype
        )
    except PaddockError as e:
        raise CheckpointError(str(e)) from None
