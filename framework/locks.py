"""A file as a lock between processes: it ends with the process that holds it, however that dies."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from framework.atomic import remove_file
from framework.confined import open_inside
from framework.system.file_locks import lock_file

_LOOK = 0.1  # seconds between two looks at a lock that another process holds


@contextlib.contextmanager
def alone(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[IO[bytes]]:
    """Inside, no other process is inside with the same path; the file is open for reading and writing.

    It is made where it is missing, and removed at the end if nothing was written to it.

    Args:
        path: of the file; its folder is there.
        waiting: called once where another process is inside; it is waited for without an end.

    Raises CheckpointError where it is a link or no regular file; OSError.
    """
    told = False
    while True:
        fd = open_inside(path, os.O_RDWR | os.O_CREAT)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            while not _locked(fd):
                if not told:
                    waiting()
                    told = True
                time.sleep(_LOOK)
            if not is_still(path, fd):  # who had it has moved or removed the file
                continue
            try:
                yield file
            finally:
                if is_still(path, fd) and os.fstat(fd).st_size == 0:
                    remove_file(path)
            return


def is_still(path: Path, fd: int) -> bool:
    """Whether a path still leads to the file that was opened: nobody has moved, removed or replaced it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except OSError:
        return False


def _locked(fd: int) -> bool:
    try:
        lock_file(fd)
    except BlockingIOError:
        return False
    return True
