"""Locks on open files between processes: `flock`, or portalocker's where that is missing."""

from __future__ import annotations

import errno
import os

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def lock_file(fd: int, *, shared: bool = False) -> None:
    """Lock a file at once; the lock ends with the descriptor, or with the process.

    Args:
        fd: of the file.
        shared: others may share it too.

    Raises:
        BlockingIOError: another descriptor has it.
        OSError: the file system cannot lock.
    """
    if fcntl is not None:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return
    import portalocker

    how = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
    try:
        portalocker.lock(fd, how | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.exceptions.AlreadyLocked:
        raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK)) from None
    except portalocker.exceptions.LockException as error:
        raise OSError(errno.ENOLCK, str(error)) from None


def unlock_file(fd: int) -> None:
    """Let others lock the file."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_UN)
        return
    import portalocker

    portalocker.unlock(fd)
