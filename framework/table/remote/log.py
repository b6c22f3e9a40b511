"""UpdateLog: what a shard has acknowledged since its last checkpoint, in numbered files that are only appended to.

    log-00000007    header; record; record; ...

A record is a frame of sizes and checksums and the bytes behind it. It is written by `write()` before it is
acknowledged, so it survives the end of the process, also by kill -9. Whether it survives the end of the machine is what
`Durability` says. A record that a killed process wrote in part was never acknowledged: it is cut off when the log is
read. Any other damage is an error: it might be an acknowledged record.
"""

from __future__ import annotations

import logging
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from framework.atomic import flush, remove_file
from framework.confined import open_inside
from framework.errors import AttributeValueError, CheckpointError, StateError

_log = logging.getLogger(__name__)
_FILE = struct.Struct("<8sQ16s")  # magic, number of the file, model
_RECORD = struct.Struct("<QII")  # bytes that follow, their CRC-32, the CRC-32 of these 12 bytes
_MAGIC = b"PDLOG\n\x01\x00"


@dataclass(frozen=True)
class Durability:
    """When the log is on disk.

    Args:
        fsync: "always": before an acknowledgement, so nothing acknowledged is lost in a power cut. "interval": every
            `seconds`; a power cut loses what was acknowledged since. "never": the kernel decides.
        seconds: see there.
    """

    fsync: Literal["always", "interval", "never"] = "interval"
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.fsync not in ("always", "interval", "never"):
            raise AttributeValueError(f"Durability: fsync is {self.fsync!r}; it is 'always', 'interval' or 'never'")
        if not self.seconds > 0:
            raise AttributeValueError(f"Durability: seconds is {self.seconds}; it must be above 0")


class UpdateLog:
    """Appends records to the newest file of a folder.

    Attributes:
        number: of that file.
        bytes: of the records since the last `rotate`, in files that were there before, too.

    Args:
        folder: of the files, which exists.
        model: 16 bytes that tell whose log it is.
        number: of the file that is begun.
        durability: see there.
    """

    def __init__(self, folder: Path, model: bytes, number: int, durability: Durability) -> None:
        self._folder, self._model, self._durability = folder, model, durability
        self._fd = -1
        self.number = number
        self.bytes = sum(path_of(folder, other).stat().st_size - _FILE.size for other in numbers(folder))
        self._begin(number)

    def _begin(self, number: int) -> None:
        path = path_of(self._folder, number)
        fd = open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        os.write(fd, _FILE.pack(_MAGIC, number, self._model))
        os.fsync(fd)
        flush(self._folder)
        before, self._fd = self._fd, fd
        self.number, self._size = number, _FILE.size
        self._dirty, self._synced = False, time.monotonic()
        if before >= 0:
            os.fsync(before)
            os.close(before)

    def append(self, frames: Sequence[Any]) -> None:
        """Write one record of these buffers.

        Raises StateError where that fails, as on a full disk; what was written of it is taken back.
        """
        views = [memoryview(frame).cast("B") for frame in frames if memoryview(frame).nbytes]
        crc = 0
        for view in views:
            crc = zlib.crc32(view, crc)
        size = sum(view.nbytes for view in views)
        sizes = struct.pack("<QI", size, crc)
        try:
            _write_all(self._fd, [memoryview(sizes + struct.pack("<I", zlib.crc32(sizes))), *views])
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise StateError(
                f"{path_of(self._folder, self.number)}: an update cannot be logged ({error.strerror}), so it is "
                "not taken"
            ) from error
        self._size += _RECORD.size + size
        self.bytes += _RECORD.size + size
        self._dirty = True

    def commit(self) -> None:
        """Bring what was appended to disk, if the durability asks for it now; to be called before acknowledging."""
        how = self._durability
        if not self._dirty or how.fsync == "never":
            return
        if how.fsync == "always" or time.monotonic() - self._synced >= how.seconds:
            os.fsync(self._fd)
            self._dirty, self._synced = False, time.monotonic()

    def rotate(self) -> int:
        """Begin the next file and return its number."""
        self._begin(self.number + 1)
        self.bytes = 0
        return self.number

    def remove_before(self, number: int) -> None:
        """Remove the files whose records are in a checkpoint."""
        for other in numbers(self._folder):
            if other < number:
                remove_file(path_of(self._folder, other))

    def close(self) -> None:
        """Bring all to disk and close the file."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1


def path_of(folder: Path, number: int) -> Path:
    """The file of a number."""
    return folder / f"log-{number:08d}"


def numbers(folder: Path) -> list[int]:
    """The numbers of the files that are there, rising."""
    return sorted(int(path.name[4:]) for path in folder.glob("log-*") if path.name[4:].isdigit())


def read(folder: Path, model: bytes, since: int, *, cut: bool = True) -> Iterator[bytes]:
    """The records of all files from number `since` on, in order.

    Args:
        folder: of the files.
        model: whose log it must be.
        since: the first file.
        cut: remove a record that was written in part from the last file.

    Raises CheckpointError where a file is missing, another model's, or damaged before its end.
    """
    found = [number for number in numbers(folder) if number >= since]
    if found != list(range(since, since + len(found))):
        raise CheckpointError(f"{folder}: log files {found} do not follow {since} without a gap; one was removed")
    for number in found:
        yield from _records(path_of(folder, number), number, model, last=number == found[-1], cut=cut)


def _records(path: Path, number: int, model: bytes, *, last: bool, cut: bool) -> Iterator[bytes]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(_FILE.size)
        if len(head) < _FILE.size and last:  # killed while it was begun
            if cut:
                remove_file(path)
            return
        if len(head) < _FILE.size or _FILE.unpack(head)[:2] != (_MAGIC, number):
            raise CheckpointError(f"{path}: is no log of a shard, or a damaged one")
        if _FILE.unpack(head)[2] != model:
            raise CheckpointError(f"{path}: is the log of another model; name another folder for this run")
        at = _FILE.size
        while at < size:
            frame = file.read(_RECORD.size)
            whole = len(frame) == _RECORD.size
            length, crc, check = _RECORD.unpack(frame) if whole else (0, 0, 0)
            if whole and zlib.crc32(frame[:12]) != check:
                raise _damaged(path, at)
            if not whole or at + _RECORD.size + length > size:
                if not last:
                    raise _damaged(path, at)
                break
            body = file.read(length)
            if zlib.crc32(body) != crc:
                raise _damaged(path, at)
            yield body
            at += _RECORD.size + length
    if at < size:
        _log.warning("%s: its last %d bytes are an update that was never acknowledged; cut off", path, size - at)
        if cut:
            _cut(path, at)


def _cut(path: Path, size: int) -> None:
    fd = open_inside(path, os.O_WRONLY)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def _damaged(path: Path, at: int) -> CheckpointError:
    return CheckpointError(
        f"{path}: damaged at byte {at}, and what follows may have been acknowledged; copy it from a backup, or lose "
        f"what follows: truncate -s {at} {path}"
    )


def _write_all(fd: int, views: list[memoryview]) -> None:
    """writev until everything is written."""
    while views:
        done = os.writev(fd, views)
        while views and done >= views[0].nbytes:
            done -= views.pop(0).nbytes
        if done:
            views[0] = views[0][done:]
